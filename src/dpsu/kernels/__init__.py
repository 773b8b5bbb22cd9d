"""The compiled loops: arrays in, arrays out, no classes, no closures.

Importing anything from here imports numba; callers do so where the work starts.
"""
