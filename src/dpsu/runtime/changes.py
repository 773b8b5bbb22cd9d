"""Process-wide changes that overlapping calls share: the first makes one, and the last undoes it.

Where each of two overlapping calls saved and restored what it found, the second would restore what
the first had changed. Whatever can be a context variable is one; this is for what others own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager

_lock = threading.Lock()
_begun: dict[Hashable, tuple[int, AbstractContextManager[object]]] = {}


@contextmanager
def shared(name: Hashable, change: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Let a change hold in this block: the first one in it makes the change, the last undoes it."""
    with _lock:
        users, made = _begun.get(name, (0, None))
        if made is None:
            made = change()
            made.__enter__()
        _begun[name] = users + 1, made
    try:
        yield
    finally:
        with _lock:
            users, made = _begun.pop(name)
            if users > 1:
                _begun[name] = users - 1, made
            else:
                made.__exit__(None, None, None)
