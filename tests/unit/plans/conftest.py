"""No test of this folder depends on luck: see tests.support.chance."""

from tests.support.chance import no_luck  # noqa: F401
