"""Anything that holds (user, item) rows, and public knowledge beside it."""
