"""The types that users and items may be declared to have.

This file imports nothing, so that `dpsu --help` may import it.
"""

from __future__ import annotations

TEXT_TYPE, INTEGER_TYPE = "text", "integer"
ID_TYPES = (TEXT_TYPE, INTEGER_TYPE)
