"""Who holds what: ids of users and items, pairs of them, and how many items of a user count.

Everything in here is private: these classes have no repr and are never printed.
"""
