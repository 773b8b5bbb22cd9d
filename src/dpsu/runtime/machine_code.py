"""Machine code of kernels, stored by one run and loaded by the next ones without numba.

Numba compiles to machine code with a wrapper that takes and returns Python objects. Both are
stored, and loaded again by the LLVM and the small C modules that numba itself uses; only its Python
code, which is what takes long to import, is not needed for it. A file is used only if everything
that decides what is in it is the same: the code of the kernel and of all it calls, the kinds of its
arguments, the processor, and the versions of Python, numba, llvmlite and NumPy.

Otherwise numba compiles it anew. Where code cannot be stored like this, numba keeps its own files.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pickle
import platform
import re
import secrets
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# LLVM reserves much of the address space, and so do threads of other libraries when they start:
# where that is limited, it has to reserve early.
import llvmlite
import llvmlite.binding as llvm
import numpy as np

FORMAT = 1
# Settings of numba that change nothing in what is compiled.
_HARMLESS = frozenset({"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"})
# Attributes of numba's configuration that change it, as they are by themselves.
_USUAL = {
    "BOUNDSCHECK": None, "OPT": 3, "DISABLE_JIT": 0, "CPU_NAME": None, "CPU_FEATURES": None,
    "LOOP_VECTORIZE": 1, "SLP_VECTORIZE": 0, "DEBUGINFO_DEFAULT": 0,
}  # fmt: skip
_PACKAGE = Path(__file__).resolve().parent.parent
# Versions of numba with which it was tried. What is used of numba is not meant for others: a newer
# one keeps its own files, until it was tried.
_OLDEST, _NEWEST = (0, 60), (0, 68)
# The C modules in which numba keeps what compiled code calls, and how the compiler spells it.
_C_MODULES = (
    ("_helperlib", "numba_"),
    ("_dynfunc", "numba_"),
    ("core.runtime._nrt_python", "NRT_"),
)


@functools.cache
def usable() -> bool:
    """Whether this was tried here, and no setting of numba changes what is compiled."""
    settings = {name for name in os.environ if name.startswith("NUMBA_")}
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and sys.maxsize > 2**32
        and sys.implementation.name == "cpython"
        and settings <= _HARMLESS
        and not Path(".numba_config.yaml").exists()
        and _OLDEST <= _numba_version() <= _NEWEST
    )


def usable_now() -> bool:
    """The same, and numba, if it is loaded, has not been told to compile in another way."""
    config = sys.modules.get("numba.core.config")
    return usable() and (
        config is None
        or all(getattr(config, name, usual) == usual for name, usual in _USUAL.items())
    )


def folders() -> list[Path]:
    """Where machine code may be: the first that can be written gets what is compiled."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return [Path(given) / "dpsu"]
    beside = _PACKAGE / "kernels" / "__pycache__"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    except RuntimeError:  # nobody's home
        return [beside]
    return [beside, cache / "dpsu"]


def writable_folder() -> Path | None:
    """The folder in which compiled code is kept, which is made if need be; None if none can be."""
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


class Place:
    """Where the machine code of one kernel for one kind of arguments is stored."""

    def __init__(self, module: str, name: str, kind: str, fingerprint: str) -> None:
        self._name = name
        machine = hashlib.sha256(f"{kind}\0{_machine()}".encode()).hexdigest()[:24]
        self._any_version = f"{module}.{name}-{machine}-"
        self._file = f"{self._any_version}{fingerprint[:24]}.code"

    def load(self) -> Callable[..., Any] | None:
        """The function; None if there is no file, or one that cannot be used."""
        for folder in folders():
            try:
                stored = (folder / self._file).read_bytes()
            except OSError:
                continue
            try:
                return _linked(self._name, *_unpacked(stored))
            except (
                OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError
            ):  # fmt: skip
                # Damaged, or of another numba than it says: numba compiles, and writes it anew.
                continue
        return None

    def save(self, compiled: Any) -> None:
        """Keep what numba compiled; if that cannot be done, the next run asks numba again.

        What was compiled of an older source is removed, so that folders do not grow.
        """
        try:
            stored = _packed(compiled)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            return
        if stored is None:
            return
        for folder in folders():
            try:
                _write(folder, self._file, stored)
                for path in folder.glob(f"{self._any_version}*"):
                    if path.name != self._file:
                        path.unlink(missing_ok=True)
            except OSError:
                continue
            return


def _write(folder: Path, name: str, content: bytes) -> None:
    """Write a file that other processes, and other users, see as a whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    # Not by `tempfile`, whose files nobody else can read.
    temporary = folder / f"dpsu-{secrets.token_hex(8)}.part"
    try:
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(folder / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@functools.cache
def _machine() -> str:
    """All that code depends on beside the kernel itself."""
    version = _version_file()
    return repr(
        (
            FORMAT,
            sys.implementation.cache_tag,
            sys.version,
            hashlib.sha256(version).hexdigest(),
            llvmlite.__version__,
            np.__version__,
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            sorted(llvm.get_host_cpu_features().items()),
        )
    )


def _numba_version() -> tuple[int, int]:
    """The first two numbers of the version of numba, which is not imported; 0 if unknown."""
    written = re.search(rb'"version": "(\d+)\.(\d+)', _version_file())
    return (int(written[1]), int(written[2])) if written else (0, 0)


def _version_file() -> bytes:
    try:
        return (_numba_folder() / "_version.py").read_bytes()
    except OSError:
        return b""


@functools.cache
def _numba_folder() -> Path:
    """Where numba is installed; finding it does not import it."""
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba is not installed")
    return Path(spec.origin).parent


def _packed(compiled: Any) -> bytes | None:
    """The file for what numba compiled; None if it needs what a file cannot hold."""
    described, environment = compiled.fndesc, compiled.environment
    constants = list(environment.consts)
    if compiled.objectmode or compiled.lifted or compiled.reload_init:
        return None
    # A dtype of several fields is not told by its string.
    if not all(isinstance(c, np.dtype) and np.dtype(c.str) == c for c in constants):
        return None
    library = compiled.library
    module = llvm.parse_bitcode(library._get_module_for_linking().as_bitcode())
    wanted = {described.llvm_cpython_wrapper_name, described.env_name}
    for thing in (*module.functions, *module.global_variables):
        if not thing.is_declaration:
            thing.linkage = "external" if thing.name in wanted else "internal"
    machine = library.codegen._tm
    _drop_unused(module, machine)
    things = [*module.functions, *module.global_variables]
    here = {thing.name for thing in things if not thing.is_declaration}
    if not wanted <= here:
        return None
    needed = [
        thing.name
        for thing in things
        if thing.is_declaration and not thing.name.startswith("llvm.")
    ]
    head = {
        "wrapper": described.llvm_cpython_wrapper_name,
        "environment": described.env_name,
        "constants": [constant.str for constant in constants],
        "needed": needed,
    }
    body = json.dumps(head).encode()
    code: bytes = machine.emit_object(module)
    whole = struct.pack("<Q", len(body)) + body + code
    return hashlib.sha256(whole).digest() + whole


def _drop_unused(module: Any, machine: Any) -> None:
    """Drop what nothing calls that is wanted: wrappers of functions that are called inside."""
    passes: Any
    if hasattr(llvm, "create_module_pass_manager"):
        # Versions of llvmlite with older passes, which newer ones do not have.
        passes = llvm.create_module_pass_manager()
        passes.add_global_dce_pass()
        passes.run(module)
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    options = llvm.create_pipeline_tuning_options()
    passes.run(module, llvm.create_pass_builder(machine, options))


def _unpacked(stored: bytes) -> tuple[dict[str, Any], bytes]:
    """The description and the machine code in a file."""
    digest, whole = stored[:32], stored[32:]
    if hashlib.sha256(whole).digest() != digest:
        raise ValueError("the file is damaged")
    (length,) = struct.unpack("<Q", whole[:8])
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def _linked(name: str, head: dict[str, Any], code: bytes) -> Callable[..., Any] | None:
    """A function that runs this machine code."""
    engine, functions = _engine()
    # LLVM ends the process if something is missing, so that it is asked first.
    if not all(llvm.address_of_symbol(needed) for needed in head["needed"]):
        return None
    environment = functions.Environment({"__name__": "dpsu.kernels"})
    environment.consts.extend(np.dtype(constant) for constant in head["constants"])
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_global_value_address(head["environment"])
    ctypes.c_void_p.from_address(address).value = id(environment)
    start = engine.get_function_address(head["wrapper"])
    # The last argument is kept as long as the function, and so is its environment.
    made: Callable[..., Any] = functions.make_function(
        sys.modules[__name__], name, "machine code of an earlier run", start, environment,
        (engine, environment),
    )  # fmt: skip
    return made


@functools.cache
def _engine() -> tuple[Any, Any]:
    """LLVM, told where the C functions of numba are, and the C module that makes functions."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # What compiled code keeps pickled are classes of NumPy and errors. The C function of numba
    # would import all of numba to read these.
    _add_symbol("numba_unpickle", ctypes.cast(_UNPICKLE, ctypes.c_void_p).value)
    modules = {}
    for name, prefix in _C_MODULES:
        modules[name] = module = _c_module(name)
        for spelled, address in module.c_helpers.items():
            own = "" if spelled.startswith("_") and prefix == "NRT_" else prefix
            _add_symbol(own + spelled, address)
    _add_symbol("_Py_NoneStruct", id(None))
    for error in _errors():
        _add_symbol(f"PyExc_{error.__name__}", id(error))
    target = llvm.Target.from_triple(llvm.get_process_triple())
    empty = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(empty, target.create_target_machine(jit=True))
    return engine, modules["_dynfunc"]


def _add_symbol(name: str, address: int | None) -> None:
    """Tell LLVM where something is, unless numba has done so."""
    if not llvm.address_of_symbol(name):
        llvm.add_symbol(name, address)


@functools.cache
def _loads(pickled: bytes) -> Any:
    return pickle.loads(pickled)


def _unpickle(data: int, length: int, hashed: int) -> Any:
    """The value that compiled code keeps pickled at this address."""
    return _loads(ctypes.string_at(data, length))


# It is called with the GIL, as part of what makes Python objects of results.
_UNPICKLE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    _unpickle
)


def _errors() -> Iterator[type[BaseException]]:
    for thing in vars(builtins).values():
        if isinstance(thing, type) and issubclass(thing, BaseException):
            yield thing


def _c_module(name: str) -> Any:
    """One of numba's C modules, without the package around it, which takes long to import."""
    full = f"numba.{name}"
    if full in sys.modules:
        return sys.modules[full]
    start = _numba_folder().joinpath(*name.split("."))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = start.with_name(start.name + suffix)
        if path.exists():
            spec = importlib.util.spec_from_file_location(full, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            # Numba imports it as its own, should it be needed after all: it is the same module.
            sys.modules.pop(full, None)
            return module
    raise ImportError(f"numba has no {name}")
