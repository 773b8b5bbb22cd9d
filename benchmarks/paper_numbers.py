"""What the papers published: every number of their tables, and what they say of their figures.

Gopi et al. 2020 by the numbering of arXiv 2002.09745 (the ICML version moves its Tables 1 and 4 to
the supplement), Carvalho et al. 2022 by that of AAAI. Numbers are as printed, misprints included;
`CORRECTED` holds what must have been meant.
"""

from __future__ import annotations

import math

EPSILON, DELTA = 3.0, math.exp(-10)
GOPI_ALPHA, PASSES_ALPHA, CARVALHO_ALPHA = 5.0, 2.0, 3.0

USERS, POSTS, VOCABULARY = 223_388, 373_983, 153_701
# "The alpha in this case is about 1": the caption of Figure 4.
ZIPF = 1.0
TOP_USERS = (850, 2000)

# Gopi, Table 1: percentage of users with at most T words.
SET_SIZES = {1: 2.78, 10: 29.82, 50: 79.16, 100: 93.13, 300: 99.59}

# Gopi, Table 2: mean and standard deviation over 5 orders of users, alpha 5.
LIMITS = (1, 10, 50, 100, 200, 300)
GOPI_TABLE_2: dict[str, tuple[tuple[int, int], ...]] = {
    "count-laplace": ((4484, 32), (3666, 7), (2199, 8), (1502, 14), (882, 4), (647, 4)),
    "count-gaussian": ((3179, 15), (6616, 18), (6998, 23), (6470, 12), (5492, 14), (4813, 14)),
    "weighted-laplace": ((4479, 26), (4309, 15), (4012, 10), (3875, 9), (3726, 17), (3648, 12)),
    "weighted-gaussian": ((3194, 11), (6591, 18), (8570, 14), (8904, 24), (8996, 30), (8936, 12)),
    "policy-laplace": (
        (4482, 21), (12840, 28), (15268, 10), (14739, 23), (14173, 25), (13870, 23),
    ),
    "policy-gaussian": (
        (3169, 13), (11010, 15), (16181, 33), (16954, 58), (17113, 16), (17022, 57),
    ),
}  # fmt: skip

# Gopi, Table 3: k, words of at least k users, and the sizes at 100 items per user as a percentage.
GOPI_TABLE_3 = {
    5: (34699, 24.5, 48.9),
    10: (23471, 62.8, 72.2),
    15: (18461, 79.8, 91.8),
    18: (16612, 88.7, 102.1),
    20: (15550, 94.8, 109.0),
    25: (13638, 108.1, 124.3),
}
# 14,739 of 34,699 is 42.5 %: two digits changed places.
CORRECTED = {("gopi", "3", 5, "policy-laplace"): 42.5}

# Gopi, Table 4: one pass and two passes with their standard deviations, and the p-value, alpha 2.
GOPI_TABLE_4: dict[str, tuple[tuple[int, int, int, int, float], ...]] = {
    "policy-laplace": (
        (4236, 14, 4257, 17, 0.083), (12452, 31, 12389, 17, 0.008), (15056, 35, 15080, 21, 0.262),
        (14562, 50, 14567, 24, 0.846), (14005, 33, 13979, 31, 0.271), (13702, 37, 13678, 47, 0.448),
    ),
    "policy-gaussian": (
        (3135, 25, 3131, 20, 0.829), (10784, 22, 10817, 54, 0.293), (15763, 33, 15809, 45, 0.139),
        (14562, 50, 14568, 24, 0.846), (14005, 33, 13979, 31, 0.271), (13702, 37, 13678, 47, 0.447),
    ),
}  # fmt: skip

# Carvalho, Table 2: users, observations, vocabulary.
CARVALHO_TABLE_2 = {
    "reddit": (223_388, 373_983, 153_701),
    "twitter": (702_682, 2_811_774, 1_300_123),
    "finance": (1_400_465, 1_400_465, 267_256),
}
PRIVATE = tuple(CARVALHO_TABLE_2)

# Carvalho, Table 3: public vocabulary; overlap in percent and correlation with each private set.
CARVALHO_TABLE_3: dict[str, tuple[int, dict[str, tuple[int, float]]]] = {
    "imdb": (194_532, {"reddit": (31, 0.87), "twitter": (5, 0.70), "finance": (13, 0.39)}),
    "covid": (784_699, {"reddit": (26, 0.42), "twitter": (6, 0.33), "finance": (23, 0.24)}),
    "songs": (222_074, {"reddit": (32, 0.70), "twitter": (6, 0.56), "finance": (14, 0.27)}),
    "wiki": (631_866, {"reddit": (33, 0.69), "twitter": (7, 0.52), "finance": (24, 0.41)}),
    "enron": (989_560, {"reddit": (35, 0.21), "twitter": (9, 0.15), "finance": (30, 0.12)}),
}
PUBLIC = tuple(CARVALHO_TABLE_3)

# Carvalho, Table 4: mean and standard error over 5 trials.
CARVALHO_LIMITS = (1, 10, 20, 30, 50, 100, 200, 300)
CARVALHO_TABLE_4: dict[str, dict[str, tuple[int, int]]] = {
    "reddit": {
        "policy-laplace": (15485, 63), "policy-gaussian": (16958, 37), "GW": (17051, 51),
        "imdb": (18968, 76), "covid": (18811, 36), "songs": (18979, 48), "wiki": (19057, 14),
        "enron": (19012, 41),
    },
    "twitter": {
        "policy-laplace": (33757, 15), "policy-gaussian": (34332, 49), "GW": (37697, 22),
        "imdb": (40910, 41), "covid": (41332, 32), "songs": (41739, 7), "wiki": (42060, 63),
        "enron": (42808, 26),
    },
    "finance": {
        "policy-laplace": (45323, 75), "policy-gaussian": (40724, 62), "GW": (49868, 23),
        "imdb": (50451, 98), "covid": (51059, 43), "songs": (50409, 55), "wiki": (50934, 64),
        "enron": (51070, 99),
    },
}  # fmt: skip

# The papers print no axis values with their figures' text. These cover what they discuss: epsilon
# below and above 1, alpha from 0 to 6 (Carvalho) and on to where the curve falls (Gopi).
EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
GOPI_ALPHAS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
CARVALHO_ALPHAS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
FIGURE_LIMIT = 100
