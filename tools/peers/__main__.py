"""Hand keys to all libraries."""

from tools.peers.runner import main

if __name__ == "__main__":
    main()
