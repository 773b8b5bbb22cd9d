"""What ids may be declared to be. Imports nothing, so that `dpsu --help` may."""

from __future__ import annotations

TEXT_TYPE, INTEGER_TYPE = "text", "integer"
ID_TYPES = (TEXT_TYPE, INTEGER_TYPE)
