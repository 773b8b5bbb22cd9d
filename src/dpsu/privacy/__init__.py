"""What a release guarantees, and the mathematics that calibrates noise to it."""
