"""`python -m dpsu` is the command line."""

from dpsu.cli import run

if __name__ == "__main__":
    run()
