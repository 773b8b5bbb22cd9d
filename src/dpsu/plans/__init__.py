"""From options to a plan: everything about a release that is known before any data is read."""
