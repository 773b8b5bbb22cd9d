"""The machine: memory, threads, writing files, and libraries that may be missing."""
