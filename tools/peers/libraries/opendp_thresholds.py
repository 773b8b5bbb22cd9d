"""What noise and a threshold cost by OpenDP's own accounting: questions and answers are JSON."""

from __future__ import annotations

import json
import sys
from typing import Any


def cost(curve: str, scale: float, threshold: float, items: int) -> tuple[float, float]:
    """Epsilon (Laplace) or rho (Gaussian), and delta, for a user of so many items of weight 1."""
    import opendp.prelude as dp

    domain = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=float, nan=False))
    distance = dp.absolute_distance(T=float)
    made: Any
    if curve == "laplace":
        made = dp.m.make_laplace_threshold(
            domain, dp.l01inf_distance(distance), scale=scale, threshold=threshold
        )
        norm = float(items)
    else:
        made = dp.m.make_gaussian_threshold(
            domain, dp.l02inf_distance(distance), scale=scale, threshold=threshold
        )
        norm = items**0.5
    first, delta = made.map((items, norm, 1.0))
    return float(first), float(delta)


if __name__ == "__main__":
    import opendp.prelude

    opendp.prelude.enable_features("contrib")
    json.dump([cost(**each) for each in json.load(sys.stdin)], sys.stdout)
