"""`python -m dpsu` is the command line."""

from dpsu_command import run

if __name__ == "__main__":
    run()
