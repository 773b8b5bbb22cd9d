"""Benchmarks: public API only; raw results beside them."""
