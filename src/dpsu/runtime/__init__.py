"""The machine: memory, threads, compiling, writing files, libraries that may be missing."""
