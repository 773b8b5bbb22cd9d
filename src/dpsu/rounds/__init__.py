"""Mechanisms that ask all users for weights in several rounds, each with a share of the budget.

Like a policy, such a mechanism is frozen data and part of the plan. It asks an engine for sums of
weights over all users, and for nothing else.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpsu.privacy.bits import BitsAccount
from dpsu.privacy.curves import Gaussian
from dpsu.rounds.account import Account
from dpsu.rounds.bits import BitsRounds
from dpsu.rounds.boundary import Phase
from dpsu.rounds.ngrams import NGramRounds
from dpsu.rounds.sieve import SieveRounds, Steering
from dpsu.rounds.sips import SipsRounds

__all__ = [
    "BitsRounds", "NGramRounds", "Rounds", "SieveRounds", "SipsRounds", "rounds_from_dict",
    "rounds_to_dict",
]  # fmt: skip

Rounds = SieveRounds | SipsRounds | NGramRounds | BitsRounds


def rounds_to_dict(rounds: Rounds) -> dict[str, Any]:
    """Describe rounds in plain values; `rounds_from_dict` reads them back."""
    return {"kind": rounds.kind, **asdict(rounds)}


def rounds_from_dict(description: dict[str, Any]) -> Rounds:
    """Rebuild the rounds that `rounds_to_dict` described."""
    values = dict(description)
    kind = values.pop("kind")
    if kind == NGramRounds.kind:
        lists = {name: tuple(values[name]) for name in ("shares", "scales")}
        return NGramRounds(**(values | lists))
    if kind == BitsRounds.kind:
        lists = {name: tuple(values[name]) for name in ("shares", "caps", "choices")}
        return BitsRounds(**(values | lists | {"account": BitsAccount(**values["account"])}))
    if kind == SipsRounds.kind:
        curves = tuple(Gaussian(**curve) for curve in values.pop("curves"))
        return SipsRounds(curves=curves, shares=tuple(values.pop("shares")), **values)
    phases = tuple(_phase(phase) for phase in values.pop("phases"))
    account, steering = Account(**values.pop("account")), Steering(**values.pop("steering"))
    return SieveRounds(phases=phases, account=account, steering=steering, **values)


def _phase(values: dict[str, Any]) -> Phase:
    lists = {name: tuple(values[name]) for name in ("shares", "shapes", "boundary")}
    return Phase(**(values | lists))
