"""Attacks on the command line and the library from outside, for as long as one likes.

    python -m tools.soak                                      20 minutes of everything
    python -m tools.soak --only kills --seed 123 --cases 1    one case again

Every attack is a module of its own: it makes cases from seeds, runs them in processes of their own
and says what was wrong. Nothing is mended or hidden here: a case is bad if a promise was broken.
"""
