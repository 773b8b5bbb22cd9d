"""Why a number differs from the published one by more than 10 %, written by hand.

A difference that nobody has written a reason for is shown as unexplained.
"""

from __future__ import annotations

import re

UNEXPLAINED = "**unexplained**"

# Paper, table, what the row says, set; the first that fits. Patterns match the beginning.
REASONS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "gopi", "4", r"policy-gaussian, max_items (100|200|300),", ".*",
        "The paper's cells for policy-gaussian at 100, 200 and 300 repeat those of policy-laplace, "
        "mean and deviation alike: a copying error. Table 2 has 16,954, 17,113 and 17,022 there, "
        "with alpha 5.",
    ),
    (
        "gopi", "statistics", "slope of Figure 4", "synthetic",
        "The paper says \"about 1\" of a curve. Its own Table 3 is steeper where it can be "
        "checked: from 34,699 words of 5 users to 13,638 words of 25 the slope is "
        "ln 5 / ln(34,699/13,638) = 1.72, and with slope 1 everywhere 13,638 words of 25 users "
        "would put the first word at 340,950 holders, more than there are users.",
    ),
    (
        "carvalho", "3", "vocabulary of imdb, shared reviews", ".*",
        "Other words of other reviews: the shared prior counts matches of [a-z0-9']+ in 100,000 "
        "reviews, the paper tokens of nltk in 50,000. We have not told the two apart.",
    ),
)  # fmt: skip


def reason(paper: str, table: str, where: str, corpus: str) -> str:
    """The reason for one number, or that there is none."""
    for of_paper, of_table, rows, corpora, text in REASONS:
        of = (of_paper, of_table) == (paper, table)
        if of and re.match(rows, where) and re.fullmatch(corpora, corpus):
            return text
    return UNEXPLAINED
