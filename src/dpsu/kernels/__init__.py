"""The compiled loops: arrays in, arrays out, no classes, no closures."""
