"""What releases of the same people cost together, and a file that keeps it."""
