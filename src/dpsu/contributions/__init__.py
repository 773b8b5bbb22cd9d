"""Who holds what: ids of users and items, pairs of them, and bounds on the items of one user.

`id_columns` turns cells into ids, `ids` says when two ids are the same, `id_tables` and `interner`
number those of a column, `interning` those of all rows, `pairs` holds rows of numbers, `grouped`
the items of each user. All of it is private: these classes have no repr and are never printed.
"""
