"""`python -m dpsu` is the command line."""

from dpsu.cli import main

if __name__ == "__main__":
    main()
