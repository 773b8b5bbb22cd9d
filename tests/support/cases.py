"""Many cases in one test: a loop that names the case that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest

Test = Callable[..., None]


def every(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Give a test these values one after the other, as `pytest.mark.parametrize` takes them.

    All of them are one test for pytest. Each has a folder of its own in `tmp_path`, and what it
    changes by `monkeypatch` is undone after it. Several of these decorators are a product.
    """
    given = (names,) if isinstance(names, str) else names
    cases = [dict(zip(given, one, strict=True)) for one in _rows(names, values)]

    def decorated(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def loop(**fixtures: Any) -> None:
            skipped: list[str] = []
            for number, case in enumerate(cases):
                with ExitStack() as undone:
                    own = dict(fixtures)
                    if "tmp_path" in own:
                        own["tmp_path"] = own["tmp_path"] / str(number)
                        own["tmp_path"].mkdir()
                    if "monkeypatch" in own:
                        own["monkeypatch"] = undone.enter_context(own["monkeypatch"].context())
                    try:
                        test(**case, **own)
                    except pytest.skip.Exception as reason:
                        skipped.append(f"{reason} in the case {case}")
                    except BaseException as error:
                        error.add_note(f"The case was {case}.")
                        raise
            if skipped:
                pytest.skip("; ".join(skipped))

        left = [one for name, one in signature.parameters.items() if name not in given]
        loop.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return loop

    return decorated


def _rows(names: str | tuple[str, ...], values: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(value,) if isinstance(names, str) else tuple(value) for value in values]
