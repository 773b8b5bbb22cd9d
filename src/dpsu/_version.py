"""The version of the package, which everything may import."""

__version__ = "0.1.0"
