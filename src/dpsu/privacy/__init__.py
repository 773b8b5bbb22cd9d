"""What a release promises: the guarantee, and the mathematics that calibrates noise to it."""
