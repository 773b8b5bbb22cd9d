"""Attack for a while and tell what came of it."""

from tools.soak.command import main

if __name__ == "__main__":
    main()
