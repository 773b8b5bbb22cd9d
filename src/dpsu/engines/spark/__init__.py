"""The steps of a cluster, run by Spark."""
