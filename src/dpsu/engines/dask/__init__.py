"""The steps of a cluster, run by Dask."""
