"""What every mechanism is: a frozen object with options, which designs itself for a guarantee."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from dpsu.errors import ParameterError
from dpsu.options import Typed, one_of, option, options_of
from dpsu.policies import Policy
from dpsu.privacy.curves import ReleaseCurve
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.several_ids import for_each_id
from dpsu.privacy.shifts import Shift

if TYPE_CHECKING:
    from dpsu.inputs.columns import Items
    from dpsu.inputs.tokens import Tokens
    from dpsu.text.spec import TextSpec

# Weights without a cutoff grow with the number of holders: 2^32 users of weight 1 stay below 2^62.
MAX_USERS = 2**32
UNBOUNDED_FRACTION_BITS = 30
DEFAULT_MAX_ITEMS = 100
LARGEST_MAX_ITEMS = 100_000
LARGEST_MIN_USERS = 10**6
LARGEST_ROUNDS = 100
TIGHT, PAPER = "tight", "paper"
CALIBRATIONS = (TIGHT, PAPER)


@dataclass(frozen=True)
class OneShot:
    """Weights by a policy, then one coin for every item."""

    policy: Policy
    curve: ReleaseCurve


@dataclass(frozen=True)
class Design:
    """What a mechanism decides for a guarantee: everything but the data and the key.

    Attributes
    ----------
    selection : OneShot or Rounds
        A policy, which says how users weigh items, with a curve, which says how likely an item of
        some weight is released; or rounds of noisy sums.
    max_items : int or None
        How many items of a user count; None for all.
    bounded_by : {"hash", "order"}
        How these are chosen: a sample by a salted hash, or the first in the user's order.
    cutoff : float or None
        Weight at which an item is full and users turn to other items.
    delta_split : tuple of (what, delta)
        What delta pays for.
    theorem : str
        Stem of the proof page that covers the curve or the rounds; a policy has its own.
    proven : bool
        False for published claims that do not hold.
    max_users : int
        Number of users up to which rounding errors stay inside the proof.
    order : {"repeats", "popular", "scarce", "hash"} or None
        In which order a user's items come; None where all of them count alike.
    """

    selection: Any
    max_items: int | None
    bounded_by: str
    cutoff: float | None
    delta_split: tuple[tuple[str, float], ...]
    theorem: str
    proven: bool = True
    max_users: int = MAX_USERS
    order: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mechanism(Typed, ABC):
    """A way to choose items. Classes that have a `name` are known by it, everywhere.

    Attributes
    ----------
    name, summary : str
        What people type, and one line about it.
    parallel : bool
        Whether users need not act one after the other, so that it runs on a cluster.
    counts : bool
        Whether noisy counts of the released items, and public items, go with it.
    by_length : bool
        Whether it goes through texts length by length, instead of weighing pairs.
    noun : str
        What its probabilities are about.
    several_ids : bool
        Whether `design` heeds how many ids a person may have. Others get a guarantee for one id
        that implies the one for a person, by group privacy: dearer, and right for any mechanism.
    usual_items : int or None
        Items per user to compare it with where nobody said how many, if it must be given one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    parallel: ClassVar[bool] = True
    counts: ClassVar[bool] = True
    by_length: ClassVar[bool] = False
    noun: ClassVar[str] = "An item"
    several_ids: ClassVar[bool] = False
    usual_items: ClassVar[int | None] = None

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            known = MECHANISMS.get(cls.name)
            # A module that is imported again makes its classes again.
            here = cls.__module__, cls.__qualname__
            if known is not None and (known.__module__, known.__qualname__) != here:
                raise ParameterError(f"there is a mechanism {cls.name!r} already; rename yours")
            MECHANISMS[cls.name] = cls
        if "design" in vars(cls) and "several_ids" not in vars(cls):
            # Another design than that of a base which heeds the ids of a person: it must say so.
            cls.several_ids = False
        super().__init_subclass__()

    @abstractmethod
    def design(self, privacy: Privacy) -> Design:
        """Policy and curve, or rounds, that keep this guarantee, and the names of proofs."""

    def designed_for(self, privacy: Privacy) -> Design:
        """The design that keeps this guarantee for all ids of a person."""
        return self.design(privacy if self.several_ids else for_each_id(privacy))

    def reading(self, item: Items | Tokens) -> Mechanism:
        """The mechanism as it is for items of these columns; refuses what it cannot read."""
        return self

    def facts(self, design: Design) -> list[tuple[str, str]]:
        """What a report says of the design, besides noise, threshold and cutoff."""
        if design.max_items is None:
            return [("bounding", "all items of a user count")]
        how = "by a salted hash" if design.bounded_by == "hash" else "in the user's own order"
        how = "by the public prior" if design.order == "popular" else how
        return [("bounding", f"at most {design.max_items:,} items per user, chosen {how}")]

    def people(self, design: Design, weight: float) -> str:
        """How many users a weight takes, in words."""
        return f"{math.ceil(weight):,} users who hold nothing else that is still open"

    def texts(self, item: Items | Tokens) -> TextSpec | None:
        """Which texts are read, and the lengths of n-grams; None where items have a column."""
        return item.source

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """A release by this design as Gaussian noise, for ledgers; None where it is not.

        The shift is that of one person, who has so many ids.
        """
        return None

    @property
    def calibrated(self) -> str:
        """Whether thresholds are ours or as published."""
        return getattr(self, "calibration", TIGHT)

    def to_dict(self) -> dict[str, Any]:
        """Name and options in plain values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if values.get("prior") is not None:
            values["prior"] = dict(vars(values["prior"]))
        return {"name": self.name, **values}


MECHANISMS: dict[str, type[Mechanism]] = {}


def by_name(name: str, **options: Any) -> Mechanism:
    """A mechanism by its name; :func:`dpsu.mechanism` also knows auto."""
    kind = MECHANISMS[one_of("mechanism", name, list(MECHANISMS))]
    known = options_of(kind)
    for typed in options:
        if typed not in known:
            raise no_such_option(name, typed)
    return kind(**options)


def no_such_option(name: str, typed: str) -> ParameterError:
    """The error for an option that a mechanism lacks: which it has, and who has this one."""
    having = [other for other, kind in MECHANISMS.items() if _has(kind, typed)]
    message = f"{name} has no option {{{typed}}}"
    if having:
        message += f", which {', '.join(having)} {'has' if len(having) == 1 else 'have'}"
    own = options_of(MECHANISMS[name])
    message += f"; its options are {', '.join(f'{{{each}}}' for each in own)}"
    flags = {each: option.name for each, option in own.items() if option.name}
    return ParameterError(message, flags, **dict.fromkeys([typed, *own], ...))


def none_was_named(stand_in: str, missing: str, typed: list[str]) -> ParameterError:
    """The error for options without a mechanism that `stand_in`, taken for them, does not have.

    It says that no mechanism was named, who has the option that is `missing`, and which
    mechanisms have all that was `typed`.
    """
    having = [name for name, kind in MECHANISMS.items() if _has(kind, missing)]
    fit = [name for name in having if all(_has(MECHANISMS[name], each) for each in typed)]
    verb = "has" if len(having) == 1 else "have"
    message = (
        f"no mechanism was named, and {stand_in}, which is taken where auto lacks an option, has "
        f"no option {{{missing}}}, which {', '.join(having)} {verb}"
    )
    if fit:
        several = "one of them" if len(typed) == 1 else f"one that has all of it ({', '.join(fit)})"
        message += f"; name {several if len(having) > 1 else 'it'} as {{mechanism}}"
    else:
        listed = ", ".join(f"{{{each}}}" for each in typed)
        message += f"; no mechanism has all of {listed}: drop some, and name {{mechanism}}"
    return ParameterError(message, **dict.fromkeys([*typed, missing, "mechanism"], ...))


def _has(kind: type[Mechanism], typed: str) -> bool:
    """Whether a mechanism has an option of this name, in Python or on the command line."""
    return any(typed in (name, option.name) for name, option in options_of(kind).items())


def spread_over(weight: float, most: int | None, root: bool, bound: str = "") -> str:
    """How many users a weight takes who spread theirs evenly, by its sum or its squares."""
    alone, size = math.ceil(weight), most or 100
    if size == 1:
        return f"{alone:,} users"
    many = math.ceil(weight * (math.sqrt(size) if root else size))
    return (
        f"{alone:,} users who hold nothing else, or {bound}{many:,} users who hold {size:,} items "
        "each"
    )


def max_items(default: int | None, usual: str = "") -> Any:
    """How many items of a user count."""
    what = "Count at most this many items of a user; choose it without looking at the data."
    return option(default, int, what, low=1, high=LARGEST_MAX_ITEMS, usual=usual)


def items_per_user(usual: str = "") -> Any:
    """How many items users are known to hold."""
    what = "Public estimate of the mean number of different items of a user."
    name = "expected_items_per_user"
    return option(None, float, what, low=1.0, high=1e9, name=name, usual=usual)


def users_expected(name: str = "") -> Any:
    """How many users there are, as far as that is known."""
    what = (
        "Public estimate of the number of users: order scarce of greedy needs it, and auto "
        "chooses by it instead of by its estimate of them. So few that nothing can come out are "
        "refused."
    )
    return option(None, int, what, low=1, high=MAX_USERS, name=name)


def rounds(default: int) -> Any:
    """How many noisy sums there are."""
    what = "How many noisy sums over all users are taken."
    return option(default, int, what, low=1, high=LARGEST_ROUNDS)


@dataclass(frozen=True, kw_only=True)
class Published(Mechanism):
    """Mechanisms with thresholds of a paper beside ours."""

    calibration: str = option(
        TIGHT, str, "Our release curves, or thresholds exactly as published.", choices=CALIBRATIONS
    )

    @property
    def as_published(self) -> bool:
        """Whether thresholds are those of the paper."""
        return self.calibration == PAPER


@dataclass(frozen=True, kw_only=True)
class WithMinUsers(Mechanism):
    """Mechanisms that can leave out items of few users for certain."""

    min_users: int | None = option(
        None,
        int,
        "Never release an item held by fewer users; this raises the weight needed accordingly, and "
        "count-gaussian and weighted-gaussian use the published curve.",
        low=1,
        high=LARGEST_MIN_USERS,
    )

    @property
    def shift(self) -> int:
        """Weight that counts for nothing: that of one user fewer than must hold an item."""
        return 0 if self.min_users is None else self.min_users - 1


@dataclass(frozen=True, kw_only=True)
class WithPrior(Mechanism):
    """Mechanisms that public data may guide."""

    prior: Any = option(
        None,
        object,
        "Public data, item -> number of holders or frequency: a table with a column named as that "
        "of items, or 'item', and one of numbers; or wordfreq:en. It decides which items a "
        "user keeps or spends on.",
    )

    def _one_shot(
        self,
        policy: Policy,
        curve: ReleaseCurve,
        most: int | None,
        split: tuple[tuple[str, float], ...],
        theorem: str,
        cutoff: float | None = None,
        max_users: int = MAX_USERS,
    ) -> Design:
        """Weights and coins; of the items of a user, a sample or those that the prior prefers."""
        chosen, order = ("hash", None) if self.prior is None else ("order", "popular")
        if self.prior is not None and most is None:
            raise ParameterError(
                f"{self.name} makes use of {{prior}} only with {{max_items}}: it decides which "
                "items a user keeps",
                prior=...,
                max_items=...,
            )
        return Design(
            OneShot(policy, curve), most, chosen, cutoff, split, theorem, max_users=max_users,
            order=order,
        )  # fmt: skip
