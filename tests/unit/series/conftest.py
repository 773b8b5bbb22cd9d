"""No test of this folder depends on luck."""

from tests.support.chance import no_luck  # noqa: F401
