"""The machine: memory, threads, compiling, writing files, and libraries that may be missing."""
