"""Read private rows of (user, item) from anything that holds them, and public knowledge."""
