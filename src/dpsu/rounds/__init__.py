"""Mechanisms that ask all users for weights in several rounds, each with a share of the budget.

Like a policy, such a mechanism is frozen data and part of the plan. It asks an engine for sums of
weights over all users, and for nothing else.
"""

from __future__ import annotations

from dpsu.rounds.bits import BitsRounds
from dpsu.rounds.ngrams import NGramRounds
from dpsu.rounds.sieve import SieveRounds
from dpsu.rounds.sips import SipsRounds

__all__ = ["BitsRounds", "NGramRounds", "Rounds", "SieveRounds", "SipsRounds"]

Rounds = SieveRounds | SipsRounds | NGramRounds | BitsRounds
