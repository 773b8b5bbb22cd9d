"""Releases that repeat under one budget, each of items that earlier ones did not release."""
