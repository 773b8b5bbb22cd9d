"""Compiled functions: machine code of an earlier run if there is some, numba otherwise.

To import numba and to load what it cached takes longer than a small release. The machine code alone
takes milliseconds, and it is the same code. So a kernel is first looked for among what earlier runs
stored (`machine_code`), and numba is loaded only for what is not there.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast, overload

import numpy as np

from dpsu.runtime import machine_code
from dpsu.runtime.compiling import load_numba

# Kinds of plain arguments, by what numba makes of them.
_PLAIN = {
    float: "f8", np.float64: "f8", bool: "b1", np.bool_: "b1", np.int64: "i8", np.int32: "i4",
    np.uint64: "u8", np.uint32: "u4", np.uint16: "u2", np.uint8: "u1",
}  # fmt: skip
_WHOLE = "i8"
_LEAST, _MOST = -(2**63), 2**63 - 1
# Bits of the flags of an array.
_C, _F, _ALIGNED, _WRITABLE = 1, 2, 0x100, 0x400
# Booleans, integers and floating-point numbers of NumPy.
_NUMBERS = frozenset(np.dtype(name).num for name in "?bBhHiIlLqQfd")
_BUILDING = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A child has no other thread that could let go of it.
    os.register_at_fork(
        before=_BUILDING.acquire,
        after_in_parent=_BUILDING.release,
        after_in_child=_BUILDING.release,
    )

Kind = tuple[Any, ...]
F = TypeVar("F", bound=Callable[..., Any])


def argument_kinds(arguments: tuple[Any, ...]) -> Kind:
    """What a kernel is compiled for in place of each argument; None where only numba knows.

    Not split into functions, because it runs at every call.
    """
    kind: list[Any] = []
    for argument in arguments:
        cls = type(argument)
        if cls is np.ndarray:
            flags, dtype = argument.flags.num, argument.dtype
            number: Any = dtype.num
            if not flags & _ALIGNED:
                number = None
            elif number not in _NUMBERS:
                number = _fields(dtype)
            elif not dtype.isnative:
                number = None
            if number is None:
                kind.append(None)
            else:
                layout = "C" if flags & _C else "F" if flags & _F else "A"
                kind.append((number, argument.ndim, layout, flags & _WRITABLE))
        elif cls is int:
            kind.append(_WHOLE if _LEAST <= argument <= _MOST else None)
        else:
            kind.append(_PLAIN.get(cls))
    return tuple(kind)


@functools.lru_cache(maxsize=64)
def _fields(dtype: np.dtype[Any]) -> tuple[Any, ...] | None:
    """Size of a row of several numbers, and the name, place and type of each; None for others."""
    if dtype.fields is None or dtype.isalignedstruct or dtype.hasobject:
        return None
    fields = []
    for name, (inner, *place) in dtype.fields.items():
        if inner.num not in _NUMBERS or not inner.isnative or len(place) != 1:
            return None
        fields.append((name, place[0], inner.num))
    return dtype.itemsize, *fields


class Intrinsic:
    """A function that writes code of its own for the compiler, as `numba.extending.intrinsic`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = cast(FunctionType, function)

    @functools.cached_property
    def for_numba(self) -> Any:
        """What numba calls."""
        load_numba()
        from numba.extending import intrinsic

        return intrinsic(self.function)


class Kernel:
    """A function that is compiled when it is first called, or was so in an earlier run."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.options = options
        self._fingerprint_of_numba_s: str | None = None
        self._known: dict[Kind, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run the machine code for arguments of this kind."""
        kind = argument_kinds(arguments)
        known = self._known.get(kind)
        return known(*arguments) if known is not None else self._first(kind, arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def _first(self, kind: Kind, arguments: tuple[Any, ...]) -> Any:
        """Call with arguments of a kind that this process has not had."""
        place = None
        if self.options.get("cache") and None not in kind and machine_code.usable_now():
            fingerprint = _fingerprint(self)
            if fingerprint is not None:
                place = machine_code.Place(
                    self.py_func.__module__, self.py_func.__name__, repr(kind), fingerprint
                )
                with _BUILDING:
                    known = self._known.get(kind) or place.load()
                if known is not None:
                    self._known[kind] = known
                    return known(*arguments)
        dispatcher = self.for_numba
        result = dispatcher(*arguments)
        if place is not None:
            with _BUILDING:
                if kind not in self._known:
                    overloads = getattr(dispatcher, "overloads", {})
                    types = tuple(map(dispatcher.typeof_pyval, arguments))
                    if types in overloads and _numba_knows_it_as_it_is(self):
                        place.save(overloads[types])
        self._known[kind] = dispatcher
        return result

    @functools.cached_property
    def for_numba(self) -> Any:
        """The dispatcher of numba, which finds those of other kernels where this one names them."""
        load_numba()
        from numba import njit as compile_with

        with _BUILDING:
            self._fingerprint_of_numba_s = _fingerprint(self)
            names = _names(self.py_func.__code__)
            among = self.py_func.__globals__
            own = {
                name: among[name].for_numba
                for name in names
                if isinstance(among.get(name), (Kernel, Intrinsic))
            }
            function = FunctionType(
                self.py_func.__code__,
                among | own,
                self.py_func.__name__,
                self.py_func.__defaults__,
                self.py_func.__closure__,
            )
            function.__module__ = self.py_func.__module__
            function.__doc__ = self.py_func.__doc__
            uncached = self.options | {"cache": False}
            if machine_code.usable():
                # Numba's own files overlook a changed function of another file that this one calls.
                return compile_with(**uncached)(function)
            try:
                return compile_with(**self.options)(function)
            except RuntimeError:
                # No folder can be written in which numba would keep it: it is compiled every time.
                return compile_with(**uncached)(function)


@overload
def njit(function: F) -> F: ...


@overload
def njit(**options: Any) -> Callable[[F], F]: ...


def njit(function: Any = None, **options: Any) -> Any:
    """Compile as ``numba.njit`` does, and do without numba where earlier runs stored the code.

    Arguments are positional, and kernels that a kernel calls are globals of its module.
    """
    if function is None:
        return lambda function: Kernel(function, options)
    return Kernel(function, options)


def _names(code: CodeType) -> set[str]:
    """All names that a function, and functions inside of it, may look up outside."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _fingerprint(kernel: Kernel) -> str | None:
    """A hash of all that decides what is compiled: bodies, options and constants.

    None if something is used whose value cannot be told apart from another one.
    """
    digest = hashlib.sha256()
    try:
        _add(digest, kernel, {})
    except _UnknownValueError:
        return None
    return digest.hexdigest()


def _numba_knows_it_as_it_is(kernel: Kernel) -> bool:
    """Whether no constant has changed since numba was told of a kernel and of those it calls.

    Numba keeps what it was told, and a fingerprint is that of today.
    """
    reached: dict[int, tuple[int, Any]] = {}
    _add(hashlib.sha256(), kernel, reached)
    return all(
        one._fingerprint_of_numba_s == _fingerprint(one)
        for _, one in reached.values()
        if isinstance(one, Kernel) and "for_numba" in vars(one)
    )


class _UnknownValueError(Exception):
    """A value that a fingerprint cannot hold."""


def _add(digest: Any, value: Any, seen: dict[int, tuple[int, Any]]) -> None:
    """Add a value that compiled code uses to a fingerprint.

    `seen` are the functions so far, numbered: the second time, the number tells which one it is.
    """
    if isinstance(value, (Kernel, Intrinsic)):
        if id(value) in seen:
            digest.update(f"function {seen[id(value)][0]}\0".encode())
            return
        seen[id(value)] = (len(seen), value)
        function = value.py_func if isinstance(value, Kernel) else value.function
        if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
            raise _UnknownValueError
        if isinstance(value, Kernel):
            digest.update(repr(sorted(value.options.items())).encode())
        code = function.__code__
        _add(digest, code, seen)
        among = function.__globals__
        for name in sorted(_names(code)):
            if name in among:
                digest.update(f"\0{name}=".encode())
                _add(digest, among[name], seen)
    elif isinstance(value, CodeType):
        rest = (
            value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars,
            value.co_argcount, value.co_kwonlyargcount, value.co_flags, value.co_exceptiontable,
        )  # fmt: skip
        digest.update(value.co_code + repr(rest).encode())
        for constant in value.co_consts:
            _add(digest, constant, seen)
    elif isinstance(value, (tuple, frozenset)):
        digest.update(f"{type(value).__name__} {len(value)}".encode())
        for part in value if isinstance(value, tuple) else sorted(value, key=repr):
            _add(digest, part, seen)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        digest.update(f"{type(value).__name__} {value!r}\0".encode())
    elif type(value) is np.ndarray and value.dtype.num in _NUMBERS:
        digest.update(f"{value.dtype.str} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, (ModuleType, type, FunctionType, BuiltinFunctionType, np.ufunc)):
        # What libraries define does not change without their versions, which are compared as well.
        name = f"{getattr(value, '__module__', '')}.{value.__name__}"
        ours = ("dpsu", "tests", "benchmarks", "tools", "__main__")
        if name.lstrip(".").split(".")[0] in ours:
            raise _UnknownValueError
        digest.update(name.encode())
    else:
        raise _UnknownValueError
