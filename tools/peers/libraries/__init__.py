"""One file for each library, run in its own environment; what the guide shows is cut from them."""
