"""Engines execute a plan; they decide nothing."""
