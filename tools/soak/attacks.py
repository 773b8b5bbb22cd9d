"""All attacks, in the order in which they are shown."""

from __future__ import annotations

from tools.soak.calls import CALLS
from tools.soak.disks import DISKS
from tools.soak.files import FILES
from tools.soak.kills import KILLS
from tools.soak.pipes import PIPES
from tools.soak.races import RACES
from tools.soak.retries import RETRIES

ATTACKS = (KILLS, RETRIES, FILES, DISKS, RACES, CALLS, PIPES)
