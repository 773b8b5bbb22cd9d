"""OpenDP's accounting agrees with ours: asked in an environment of its own.

    python -m tools.peers.oracles

The tests of the project ask dp-accounting; OpenDP is too large for their environment.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.peers.environments import LIBRARIES, python_of
from tools.peers.runner import ROOT

SETTINGS = [(3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 1e-6)]


@dataclass(frozen=True)
class Claim:
    """A scale and a threshold of ours, and what they cost by our proofs.

    Attributes
    ----------
    question : dict
        What OpenDP is asked.
    epsilon : float or None
        Where both say it; OpenDP gives rho for Gaussian noise.
    delta : float
        What novel items may cost.
    tolerance : float
        How far the two deltas may be from each other, relatively.
    """

    question: dict[str, Any]
    epsilon: float | None
    delta: float
    tolerance: float

    def holds(self, found: tuple[float, float]) -> bool:
        """Whether OpenDP says the same."""
        epsilon, delta = found
        same = self.epsilon is None or math.isclose(epsilon, self.epsilon, rel_tol=1e-6)
        return same and math.isclose(delta, self.delta, rel_tol=self.tolerance)


def claims() -> list[Claim]:
    """Published thresholds: of Laplace noise for one item per user, of Gaussian noise for ten."""
    import dpsu
    from dpsu.privacy import calibration
    from dpsu.privacy.curves import Gaussian

    found = []
    for epsilon, delta in SETTINGS:
        scale = 1 / epsilon
        threshold = calibration.laplace_threshold(scale, delta, 1, 0.0)
        asked = {"curve": "laplace", "scale": scale, "threshold": threshold, "items": 1}
        found.append(Claim(asked, epsilon, delta, 1e-3))
        paper = dpsu.CountGaussian(max_items=10, calibration="paper")
        curve = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=paper).curve
        assert isinstance(curve, Gaussian)
        asked = {
            "curve": "gaussian", "scale": curve.scale, "threshold": curve.threshold, "items": 10,
        }  # fmt: skip
        found.append(Claim(asked, None, delta / 2, 0.02))
    return found


def main() -> None:
    """Ask OpenDP, print every answer, and fail if one differs."""
    parser = argparse.ArgumentParser(description="Compare thresholds with OpenDP's accounting.")
    parser.add_argument("--folder", type=Path, default=ROOT / ".peers")
    parser.add_argument("--python", default=sys.executable, help="what makes the environment")
    given = parser.parse_args()
    (library,) = (each for each in LIBRARIES if each.name == "opendp")
    ours = claims()
    done = subprocess.run(
        [
            python_of(library, given.folder.resolve(), given.python),
            *("-m", "tools.peers.libraries.opendp_thresholds"),
        ],
        input=json.dumps([claim.question for claim in ours]), stdout=subprocess.PIPE, check=True,
        text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    wrong = 0
    for claim, found in zip(ours, json.loads(done.stdout), strict=True):
        held = claim.holds(found)
        wrong += not held
        print("agrees" if held else "DIFFERS", claim, found)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
