"""Keys that `dpsu` released, handed to other libraries, each in an environment of its own."""
