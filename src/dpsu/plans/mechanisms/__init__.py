"""The mechanisms, one file each. A new one is a new file, and a line here."""

from dpsu.plans.mechanisms.base import MECHANISMS, Design, Mechanism, OneShot, by_name
from dpsu.plans.mechanisms.count import CountGaussian, CountLaplace
from dpsu.plans.mechanisms.weighted import WeightedGaussian, WeightedLaplace

from dpsu.plans.mechanisms.policy import PolicyGaussian, PolicyLaplace  # isort: skip
from dpsu.plans.mechanisms.greedy import Greedy  # isort: skip
from dpsu.plans.mechanisms.reroute import Reroute  # isort: skip
from dpsu.plans.mechanisms.sips import Sips  # isort: skip
from dpsu.plans.mechanisms.sieve import Sieve  # isort: skip
from dpsu.plans.mechanisms.bits import Bits  # isort: skip
from dpsu.plans.mechanisms.ngrams import NGrams  # isort: skip
from dpsu.plans.mechanisms.auto import Auto, Choice, Hints  # isort: skip

__all__ = [
    "MECHANISMS",
    "Auto",
    "Bits",
    "Choice",
    "CountGaussian",
    "CountLaplace",
    "Design",
    "Greedy",
    "Hints",
    "Mechanism",
    "NGrams",
    "OneShot",
    "PolicyGaussian",
    "PolicyLaplace",
    "Reroute",
    "Sieve",
    "Sips",
    "WeightedGaussian",
    "WeightedLaplace",
    "by_name",
]
