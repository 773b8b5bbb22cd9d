"""Tools for developing dpsu; not part of the package."""
