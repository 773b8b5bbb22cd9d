"""How things are shown to people: characters that obey nobody, HTML for notebooks, progress."""
