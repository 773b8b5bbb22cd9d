"""The mechanisms by name: which policy, which curve, which options, covered by which theorem.

A mechanism is a function from checked options to a :class:`Design`. It is the only place that
decides which curve may be used with which policy; every such choice names its proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpsu.errors import ParameterError
from dpsu.options import number, one_of, whole_number
from dpsu.policies import Count, GreedyPolicy, L1Descent, L2Descent, Policy, ReroutePolicy, Weighted
from dpsu.privacy import calibration, joint
from dpsu.privacy.curves import Gaussian, Laplace, Optimal, ReleaseCurve, TruncatedLaplace
from dpsu.privacy.guarantee import Privacy
from dpsu.rounds import Rounds
from dpsu.rounds.sieve import design_sieve
from dpsu.rounds.sips import design_sips

DEFAULT_MAX_ITEMS = 100
SIEVE_ROUNDS, SIEVE_MAX_ITEMS, SIEVE_SCOUT_ITEMS = 14, 300, 3000
SIPS_ROUNDS = 3
LARGEST_ROUNDS = 100
LARGEST_MAX_ITEMS = 100_000
DEFAULT_ALPHA = 3.0
LARGEST_CUTOFF = 2.0**30
LARGEST_PASSES = 1000
LARGEST_MIN_USERS = 10**6
# Weights without a cutoff grow with the number of holders: 2^32 users of weight 1 stay below 2^62.
MAX_USERS = 2**32
UNBOUNDED_FRACTION_BITS = 30
# What all roundings of an l2 descent together may add to its sensitivity.
ROUNDING_ALLOWANCE = 2.0**-20
FEWEST_USERS = 1000
# The same for reroute, and the bits of its weights: with both, some millions of users.
REROUTE_ALLOWANCE = 2.0**-12
REROUTE_FRACTION_BITS = 39
# Rounding may keep a novel item this far below its share, in every pass: weights have at least 30
# fraction bits, and no rounding costs more than four units.
NOVEL_SLACK = 2.0**-28


@dataclass(frozen=True)
class OneShot:
    """Weights by a policy, then one coin for every item."""

    policy: Policy
    curve: ReleaseCurve


@dataclass(frozen=True)
class Design:
    """What a mechanism decides: everything but the data, the orders and the key."""

    selection: OneShot | Rounds
    max_items: int | None
    bounded_by: str
    cutoff: float | None
    delta_split: dict[str, float]
    theorem: str
    proven: bool = True
    max_users: int = MAX_USERS


@dataclass(frozen=True)
class Options:
    """Options that shape a design, as given; None where the caller left the choice to us."""

    privacy: Privacy
    calibration: str
    max_items: int | None = None
    alpha: float | None = None
    cutoff: float | None = None
    passes: int | None = None
    rounds: int | None = None
    scout_items: int | None = None
    min_users: int | None = None

    @property
    def shift(self) -> int:
        """Weight that counts for nothing: that of one user fewer than must hold an item."""
        return 0 if self.min_users is None else self.min_users - 1


@dataclass(frozen=True)
class Mechanism:
    """A name people type, one line about it, the options it has, and how to design it."""

    name: str
    summary: str
    options: frozenset[str]
    design: Callable[[Options], Design]


def _unpublished(options: Options, name: str) -> None:
    if options.calibration != "tight":
        raise ParameterError(f"{name} has no published thresholds; calibration must be 'tight'")


def _rounds(options: Options, default: int) -> int:
    if options.rounds is None:
        return default
    return whole_number("rounds", options.rounds, 1, LARGEST_ROUNDS)


def _max_items(options: Options, *, default: int | None, needed_by: str | None) -> int | None:
    if options.max_items is not None:
        return whole_number("max_items", options.max_items, 1, LARGEST_MAX_ITEMS)
    if default is None and needed_by is not None:
        raise ParameterError(
            f"{needed_by} needs max_items: its guarantee holds only if every user is bounded to a "
            "number of items chosen without looking at the data"
        )
    return default


def _cutoff(options: Options, threshold: float, scale: float) -> float:
    if options.cutoff is not None:
        if options.alpha is not None:
            raise ParameterError("alpha and cutoff say the same thing twice; give one of them")
        return number("cutoff", options.cutoff, 1.0 + options.shift, LARGEST_CUTOFF)
    alpha = DEFAULT_ALPHA
    if options.alpha is not None:
        alpha = number("alpha", options.alpha, 0.0, 1000.0)
    cutoff = max(1.0, threshold + alpha * scale) + options.shift
    return number("cutoff", cutoff, 1.0, LARGEST_CUTOFF)


def _fraction_bits(cutoff: float) -> int:
    return min(52, 62 - math.ceil(math.log2(cutoff)))


def _passes(options: Options) -> int:
    if options.passes is None:
        return 1
    return whole_number("passes", options.passes, 1, LARGEST_PASSES)


def _count_laplace(options: Options) -> Design:
    epsilon, delta = options.privacy.epsilon, options.privacy.delta
    max_items = _max_items(options, default=None, needed_by="count-laplace")
    assert max_items is not None
    curve: ReleaseCurve
    if options.calibration == "paper":
        scale = calibration.laplace_scale(epsilon, max_items)
        threshold = calibration.count_laplace_threshold(scale, delta, max_items)
        curve, theorem = Laplace(scale, threshold), "laplace"
    else:
        curve, theorem = TruncatedLaplace(epsilon, delta, float(max_items)), "truncated-laplace"
    return Design(OneShot(Count(), curve), max_items, "hash", None, {"novel items": delta}, theorem)


def _count_gaussian(options: Options) -> Design:
    epsilon, delta = options.privacy.epsilon, options.privacy.delta
    max_items = _max_items(options, default=DEFAULT_MAX_ITEMS, needed_by=None)
    assert max_items is not None
    norm = math.sqrt(max_items) * calibration.ROUND_UP
    if options.calibration == "paper" or options.shift:
        sigma = norm * calibration.gaussian_scale(epsilon, delta / 2.0)
        threshold = calibration.count_gaussian_threshold(sigma, delta / 2.0, max_items)
        split, theorem = _halves(delta), "gaussian"
    else:
        share = 1.0 / math.sqrt(max_items)
        novel = joint.NovelWeights(max_items, share * (1.0 - 1e-11), share)
        sigma, threshold = joint.joint_scale_and_threshold(epsilon, delta, novel)
        sigma, threshold = norm * sigma, norm * threshold
        split, theorem = {"noise and novel items together": delta}, "gaussian-joint"
    curve = Gaussian(sigma, threshold)
    return Design(OneShot(Count(), curve), max_items, "hash", None, split, theorem)


def _weighted_laplace(options: Options) -> Design:
    delta = options.privacy.delta
    policy = Weighted(1, UNBOUNDED_FRACTION_BITS)
    curve, theorem, max_items = _l1_curve(options, "weighted-laplace", 0.0)
    return Design(OneShot(policy, curve), max_items, "hash", None, {"novel items": delta}, theorem)


def _weighted_gaussian(options: Options) -> Design:
    max_items = _max_items(options, default=DEFAULT_MAX_ITEMS, needed_by=None)
    assert max_items is not None
    lowest = 1.0 / math.sqrt(max_items) - NOVEL_SLACK
    curve, split, theorem = _l2_curve(options, max_items, max(0.0, lowest))
    policy = Weighted(2, UNBOUNDED_FRACTION_BITS)
    return Design(OneShot(policy, curve), max_items, "hash", None, split, theorem)


def _policy_laplace(options: Options) -> Design:
    delta = options.privacy.delta
    passes = _passes(options)
    if options.calibration == "paper" and options.shift:
        # Whoever fills an item makes others lift items above the minimum that it never held, and
        # the published curve has no small probabilities for small weights (test_breaches).
        raise ParameterError(
            f"policy-laplace as published is not private with min_users={options.min_users}; use "
            "calibration='tight', which is and releases more, or drop min_users"
        )
    # Rounding gives a novel item at most one unit more than its share, in every pass.
    curve, theorem, max_items = _l1_curve(options, "policy-laplace", passes * 2.0**-31)
    cutoff = _cutoff(options, curve.threshold, curve.scale)
    bits = _fraction_bits(cutoff)
    policy = L1Descent(math.floor(cutoff * 2**bits), bits, passes)
    return Design(
        OneShot(policy, curve), max_items, "hash", cutoff, {"novel items": delta}, theorem
    )


def _policy_gaussian(options: Options) -> Design:
    max_items = _max_items(options, default=DEFAULT_MAX_ITEMS, needed_by=None)
    assert max_items is not None
    passes = _passes(options)
    scale = 1.0 + ROUNDING_ALLOWANCE
    # Nobody else raises a novel item, so in every pass none is farther from the cutoff: it gets at
    # least an equal share.
    lowest = (1.0 / math.sqrt(max_items) - passes * NOVEL_SLACK) / scale
    curve, split, theorem = _l2_curve(options, max_items, max(0.0, lowest), scale)
    cutoff = _cutoff(options, curve.threshold, curve.scale)
    bits = _fraction_bits(cutoff)
    policy = L2Descent(math.floor(cutoff * 2**bits), bits, passes)
    max_users = min(MAX_USERS, math.floor(ROUNDING_ALLOWANCE / policy.roundings(max_items)))
    if max_users < FEWEST_USERS:
        raise ParameterError(
            f"cutoff={cutoff:g}, passes={passes} and max_items={max_items} leave no room for "
            f"rounding beyond {max_users:,} users; lower one of them"
        )
    return Design(
        OneShot(policy, curve), max_items, "hash", cutoff, split, theorem, max_users=max_users
    )


def _greedy(options: Options) -> Design:
    epsilon, delta = options.privacy.epsilon, options.privacy.delta
    max_items = _max_items(options, default=None, needed_by=None)
    passes = _passes(options)
    split = {"novel items": delta}
    if options.calibration == "paper":
        published = Laplace(1 / epsilon, calibration.greedy_published_threshold(epsilon, delta))
        cutoff = _cutoff(options, published.threshold, published.scale)
        policy = _fractional_greedy(cutoff, passes)
        return Design(
            OneShot(policy, published),
            max_items,
            "order",
            cutoff,
            split,
            "greedy-published",
            proven=False,
        )
    given = options.cutoff
    if given is not None:
        given = number("cutoff", given, 1.0 + options.shift, LARGEST_CUTOFF)
    if options.alpha is None and (given is None or given.is_integer()):
        votes = Optimal(epsilon, delta)
        if passes > 1:
            raise ParameterError(
                "passes must be 1 where every user casts one whole vote; give a fractional cutoff "
                "or alpha to spread a user's budget over several passes"
            )
        cutoff = float(votes.best_cutoff() + options.shift) if given is None else given
        return Design(
            OneShot(GreedyPolicy(int(cutoff), 0, 1), votes),
            max_items,
            "order",
            cutoff,
            split,
            "optimal",
        )
    curve = TruncatedLaplace(epsilon, delta)
    cutoff = _cutoff(options, curve.threshold, curve.scale)
    policy = _fractional_greedy(cutoff, passes)
    return Design(OneShot(policy, curve), max_items, "order", cutoff, split, "truncated-laplace")


def _fractional_greedy(cutoff: float, passes: int) -> GreedyPolicy:
    bits = _fraction_bits(cutoff)
    return GreedyPolicy(math.floor(cutoff * 2**bits), bits, passes)


def _reroute(options: Options) -> Design:
    _unpublished(options, "reroute")
    max_items = _max_items(options, default=DEFAULT_MAX_ITEMS, needed_by=None)
    assert max_items is not None
    scale = 1.0 + REROUTE_ALLOWANCE
    lowest = (1.0 / math.sqrt(max_items) - NOVEL_SLACK) / scale
    curve, split, theorem = _l2_curve(options, max_items, max(0.0, lowest), scale)
    cutoff = _cutoff(options, curve.threshold, curve.scale)
    bits = REROUTE_FRACTION_BITS
    number("cutoff", cutoff, 1.0, 2.0 ** (62 - bits))
    policy = ReroutePolicy(math.floor(cutoff * 2**bits), bits, max_items)
    max_users = min(2 ** (62 - bits), math.floor(REROUTE_ALLOWANCE / policy.roundings()))
    return Design(
        OneShot(policy, curve), max_items, "hash", cutoff, split, theorem, max_users=max_users
    )


def _sips(options: Options) -> Design:
    max_items = _max_items(options, default=DEFAULT_MAX_ITEMS, needed_by=None)
    assert max_items is not None
    sips, split = design_sips(
        options.privacy.epsilon, options.privacy.delta, rounds=_rounds(options, SIPS_ROUNDS),
        max_items=max_items, fraction_bits=UNBOUNDED_FRACTION_BITS,
        published=options.calibration == "paper",
    )  # fmt: skip
    return Design(sips, max_items, "hash", None, split, "sips")


def _sieve(options: Options) -> Design:
    _unpublished(options, "sieve")
    max_items = _max_items(options, default=SIEVE_MAX_ITEMS, needed_by=None)
    assert max_items is not None
    scout_items = max(SIEVE_SCOUT_ITEMS, max_items)
    if options.scout_items is not None:
        scout_items = whole_number("scout_items", options.scout_items, 0, LARGEST_MAX_ITEMS)
    if 0 < scout_items < max_items:
        raise ParameterError(
            f"scout_items={scout_items} must be 0 (no scouting) or at least max_items={max_items}: "
            "what is decided on is chosen among what was scouted"
        )
    sieve, split = design_sieve(
        options.privacy.epsilon, options.privacy.delta, rounds=_rounds(options, SIEVE_ROUNDS),
        max_items=max_items, scout_items=scout_items,
    )  # fmt: skip
    return Design(sieve, max_items, "hash", None, split, "sieve", max_users=MAX_USERS)


def _l1_curve(
    options: Options, name: str, slack: float
) -> tuple[Laplace | TruncatedLaplace, str, int | None]:
    """The curve of an l1 policy, and how many items per user it needs."""
    epsilon, delta = options.privacy.epsilon, options.privacy.delta
    if options.calibration == "paper":
        max_items = _max_items(options, default=None, needed_by=f"{name} as published")
        assert max_items is not None
        scale = calibration.laplace_scale(epsilon, 1.0)
        threshold = calibration.laplace_threshold(scale, delta, max_items, slack)
        return Laplace(scale, threshold), "laplace", max_items
    max_items = _max_items(options, default=None, needed_by=None)
    return TruncatedLaplace(epsilon, delta), "truncated-laplace", max_items


def _l2_curve(
    options: Options, max_items: int, lowest: float, sensitivity: float = 1.0
) -> tuple[Gaussian, dict[str, float], str]:
    """The curve of an l2 policy whose novel items weigh at least `lowest` after scaling.

    What is left of a novel item above `min_users` may weigh less, so that only the published
    account holds for it.
    """
    epsilon, delta = options.privacy.epsilon, options.privacy.delta
    if options.calibration == "paper" or options.shift:
        sigma = calibration.gaussian_scale(epsilon, delta / 2.0)
        threshold = calibration.gaussian_threshold(sigma, delta / 2.0, max_items)
        split, theorem = _halves(delta), "gaussian"
    else:
        novel = joint.NovelWeights(max_items, lowest, 1.0)
        sigma, threshold = joint.joint_scale_and_threshold(epsilon, delta, novel)
        split, theorem = {"noise and novel items together": delta}, "gaussian-joint"
    return Gaussian(sigma * sensitivity, threshold * sensitivity), split, theorem


def _halves(delta: float) -> dict[str, float]:
    return {"noise": delta / 2.0, "novel items": delta / 2.0}


_EVERY = frozenset({"calibration", "insecure_seed", "public_items"})
_BOUNDED = _EVERY | {"max_items"}
_COUNTED = _BOUNDED | {"min_users", "prior"}
_POLICY = _BOUNDED | {"alpha", "cutoff", "passes", "prior"}
_ROUNDS = _BOUNDED | {"rounds"}
_GREEDY = _POLICY | {"min_users"} | {"allow_unproven", "count", "expected_users", "order", "prior"}

MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            "count-laplace",
            "one count per item and user, Laplace noise (Korolova et al., Wilson et al.)",
            _COUNTED,
            _count_laplace,
        ),
        Mechanism(
            "count-gaussian",
            "one count per item and user, Gaussian noise",
            _COUNTED,
            _count_gaussian,
        ),
        Mechanism(
            "weighted-laplace",
            "each user spreads weight 1 over its items, Laplace noise",
            _COUNTED,
            _weighted_laplace,
        ),
        Mechanism(
            "weighted-gaussian",
            "each user spreads l2 norm 1 over its items, Gaussian noise; order-free",
            _COUNTED,
            _weighted_gaussian,
        ),
        Mechanism(
            "policy-laplace",
            "users in turn raise items that still need it, Laplace noise (Gopi et al.)",
            _POLICY | {"min_users"},
            _policy_laplace,
        ),
        Mechanism(
            "policy-gaussian",
            "users in turn move items towards a cutoff, Gaussian noise (Gopi et al.)",
            _POLICY,
            _policy_gaussian,
        ),
        Mechanism(
            "greedy",
            "users in turn vote for their best item that still needs it (GW; with a prior GW-KT)",
            _GREEDY,
            _greedy,
        ),
        Mechanism(
            "reroute",
            "each user spreads l2 norm 1, and full items give back what they do not need; parallel",
            _BOUNDED | {"alpha", "cutoff", "prior"},
            _reroute,
        ),
        Mechanism(
            "sips",
            "weighted-gaussian in rounds, each on what is left (Swanberg et al.); parallel",
            _ROUNDS,
            _sips,
        ),
        Mechanism(
            "sieve",
            "many small looks, each steering the next; releases most; parallel; the default",
            _ROUNDS | {"scout_items"},
            _sieve,
        ),
    )
}
DEFAULT_MECHANISM = "sieve"
AUTO = "auto"
# Ours: there are no published thresholds to calibrate to.
UNPUBLISHED = ("reroute", "sieve")
CALIBRATIONS = ("tight", "paper")
ORDERS = ("count", "popular", "scarce", "hash")


def find(name: Any) -> Mechanism:
    """The mechanism of this name."""
    return MECHANISMS[one_of("mechanism", name, [*MECHANISMS, AUTO])]
