"""Machine code that is stored: it is what numba compiles, and used only where it fits."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from dpsu.runtime import jit, machine_code
from dpsu.runtime.jit import Intrinsic, Kernel, argument_kinds, njit

pytestmark = pytest.mark.skipif(not machine_code.usable(), reason="numba keeps its own files here")

FACTOR = 3
RECORD = np.dtype([("a", np.float64), ("b", np.int32)])

MODULE = """
import sys
import numpy as np
from dpsu.runtime.jit import njit

FACTOR = 3

@njit(cache=True)
def scaled(value):
    return FACTOR * value

@njit(cache=True, nogil=True)
def several(numbers, rows, flag, most, room):
    made = np.empty(max(len(numbers), room), np.int64)
    for i in range(len(numbers)):
        if numbers[i] > most:
            raise ValueError("too large")
        made[i] = scaled(numbers[i])
        rows[i]["b"] += 1
    return made, made.sum(), not flag

numbers = np.arange(4)
rows = np.zeros(4, np.dtype([("a", np.float64), ("b", np.int32)]))
made, total, other = several(numbers, rows, True, 10, 0)
print(made.tolist(), made.dtype, total, other, rows["b"].tolist(), "numba" in sys.modules)
try:
    several(numbers, rows, True, 1, 0)
except ValueError as error:
    print(error, "numba" in sys.modules)
try:
    several(numbers, rows, True, 10, 2**59)
except MemoryError:
    print("no memory", "numba" in sys.modules)
"""
RESULT = "[0, 3, 6, 9] int64 18 False [1, 1, 1, 1]"


def run(folder: Path, code: str = MODULE, **settings: str) -> list[str]:
    """The lines that a new process prints that keeps machine code in this folder."""
    script = folder / "kernels_of_a_test.py"
    script.write_text(code, encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kept"), **settings}
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, check=True, text=True, timeout=600, env=environment,
    )  # fmt: skip
    return done.stdout.splitlines()


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "kept" / "dpsu").glob("*.code"))


def test_the_next_process_does_the_same_without_numba(tmp_path: Path) -> None:
    for numba in (True, False):
        assert run(tmp_path) == [f"{RESULT} {numba}", f"too large {numba}", f"no memory {numba}"]


def test_a_changed_constant_or_callee_is_compiled_again(tmp_path: Path) -> None:
    run(tmp_path)
    other = MODULE.replace("FACTOR = 3", "FACTOR = 5")
    assert run(tmp_path, other)[0].startswith("[0, 5, 10, 15]")
    other = MODULE.replace("FACTOR * value", "FACTOR + value")
    assert run(tmp_path, other)[0].startswith("[3, 4, 5, 6]")


def test_a_changed_callee_of_another_file_is_compiled_again(tmp_path: Path) -> None:
    """Numba's own files would not notice."""
    callee = "from dpsu.runtime.jit import njit\n@njit(cache=True)\ndef scaled(x):\n    return {}\n"
    first, rest = MODULE.split("FACTOR = 3\n")
    caller = first + "from callee_of_a_test import scaled\n" + rest.split("value\n", 1)[1]
    for body, result in (("3 * x", "[0, 3, 6, 9]"), ("7 * x", "[0, 7, 14, 21]")):
        (tmp_path / "callee_of_a_test.py").write_text(callee.format(body), encoding="utf-8")
        for _ in range(2):
            assert run(tmp_path, caller)[0].startswith(result)


TWO_NAMES = """
import sys
from dpsu.runtime.jit import njit

@njit(cache=True)
def one(x):
    return x + 1

@njit(cache=True)
def hundred(x):
    return x + 100

@njit(cache=True)
def both(x):
    return one(x) + hundred(x)

step = one

@njit(cache=True)
def main(x):
    return both(x) + step(x)

print(main(0))
"""


def test_another_function_of_the_same_name_is_compiled_again(tmp_path: Path) -> None:
    """Even one that the kernel calls already under another name."""
    assert run(tmp_path, TWO_NAMES) == ["102"]
    assert run(tmp_path, TWO_NAMES.replace("step = one", "step = hundred")) == ["201"]


CHANGED = """
from dpsu.runtime.jit import njit
C = 1

@njit(cache=True)
def inner(x):
    return x + C

@njit(cache=True)
def outer(x):
    return inner(x)

outer(1)
C = 1000
outer(1.0)
"""


def test_a_constant_that_changed_after_it_was_compiled_is_not_stored(tmp_path: Path) -> None:
    run(tmp_path, CHANGED)
    from_the_start = CHANGED.replace("C = 1\n", "C = 1000\n").split("outer(1)\n")[0]
    assert run(tmp_path, from_the_start + "print(outer(1.0), outer(1))") == ["1001.0 1001"]


RECORDS = """
import numpy as np
from dpsu.runtime.jit import njit

@njit(cache=True)
def rest(rows):
    return rows[1:]

print(rest(np.zeros(3, np.dtype([("a", np.int32), ("b", np.float64)]))).dtype)
"""


def test_rows_of_several_fields_keep_them(tmp_path: Path) -> None:
    assert run(tmp_path, RECORDS) == run(tmp_path, RECORDS) == ["[('a', '<i4'), ('b', '<f8')]"]


CHECKED = """
import numpy as np
import numba
from dpsu.runtime.jit import njit
numba.config.BOUNDSCHECK = {}

@njit(cache=True)
def at(numbers, place):
    return numbers[place]

at(np.arange(3), 1)
try:
    at(np.arange(3), 3)
    print("unchecked")
except IndexError:
    print("checked")
"""


def test_what_numba_is_told_in_python_is_heeded(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, CHECKED.format("None")) == ["unchecked"]
        assert run(tmp_path, CHECKED.format("1")) == ["checked"]


FORKED = """
import os
import threading
from dpsu.runtime import jit

held, done = threading.Event(), threading.Event()

def hold():
    with jit._BUILDING:
        held.set()
        done.wait(2)

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    with jit._BUILDING:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_of_a_process_that_loads_kernels_can_load_its_own(tmp_path: Path) -> None:
    assert run(tmp_path, FORKED) == ["7"]


def test_others_can_read_what_is_stored(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        run(tmp_path)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in stored(tmp_path)} == {0o644}
    assert not list((tmp_path / "kept" / "dpsu").glob("*.part"))


def test_code_that_was_replaced_is_removed(tmp_path: Path) -> None:
    run(tmp_path)
    before = stored(tmp_path)
    run(tmp_path, MODULE.replace("FACTOR = 3", "FACTOR = 5"))
    after = stored(tmp_path)
    assert len(before) == len(after)
    assert not set(before) & set(after)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-7], lambda b: b"", lambda b: b[:40] + b"x" + b[41:]]
)
def test_a_damaged_file_is_not_run(tmp_path: Path, damage: Any) -> None:
    run(tmp_path)
    for path in stored(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    assert run(tmp_path)[0] == f"{RESULT} True"
    assert run(tmp_path)[0] == f"{RESULT} False"


def test_settings_of_numba_are_heeded(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, NUMBA_DISABLE_JIT="1")[0] == f"{RESULT} True"
    assert run(tmp_path, NUMBA_NUM_THREADS="1")[0] == f"{RESULT} False"


def test_what_cannot_be_written_is_compiled_every_time(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("not a folder")
    assert run(tmp_path)[0] == f"{RESULT} True"


def test_code_of_another_processor_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    place = machine_code.Place("m", "f", "kind", "fingerprint")
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "another one")
    monkeypatch.setattr(machine_code, "_machine", machine_code._machine.__wrapped__)
    assert machine_code.Place("m", "f", "kind", "fingerprint")._file != place._file


def test_missing_functions_are_noticed_before_llvm_ends_the_process() -> None:
    head = {"needed": ["no such function"], "constants": [], "wrapper": "", "environment": ""}
    assert machine_code._linked("f", head, b"") is None


def test_kinds_are_what_numba_tells_apart() -> None:
    numba = pytest.importorskip("numba")
    rows = np.zeros(3, RECORD)
    fixed = np.arange(3)
    fixed.flags.writeable = False
    arguments = [
        1, -1, True, 1.0, np.uint64(1), np.int64(1), np.uint8(1), np.float64(2.0), np.bool_(True), fixed,
        np.arange(3), np.arange(6)[::2], np.zeros((2, 2)), np.zeros((2, 2)).T, np.zeros((4, 4))[::2, ::2],
        np.arange(3, dtype=np.int32), np.arange(3, dtype=np.uint64), np.zeros(3, bool), rows,
        np.zeros(3, np.dtype([("b", np.float64), ("a", np.int32)])), np.zeros(3, np.float32),
    ]  # fmt: skip
    kinds = [argument_kinds((argument,))[0] for argument in arguments]
    types = [numba.typeof(argument) for argument in arguments]
    assert None not in kinds
    for one, (kind, type_) in enumerate(zip(kinds, types, strict=True)):
        for other in range(one):
            assert (kinds[other] == kind) == (types[other] == type_), (one, other)


def test_other_arguments_are_left_to_numba() -> None:
    cases: list[Any] = [
        2**63, "a", None, (1, 2), np.arange(3, dtype=">i8"), np.array(["a"]), np.array([None]), np.float32(1),
        np.zeros(9, np.uint8)[1:].view(np.int64), np.zeros(2, np.dtype([("a", ">i8")])),
        np.zeros(2, np.dtype([("a", "i8", 2)])), np.ma.zeros(2), [1],
    ]  # fmt: skip
    for argument in cases:
        assert argument_kinds((argument,)) == (None,), argument


def test_values_that_cannot_be_told_apart_are_not_kept() -> None:
    namespace: dict[str, Any] = {"table": [1, 2]}
    exec("def f(x):\n    return table[x]\n", namespace)
    assert jit._fingerprint(Kernel(namespace["f"], {})) is None


def test_fingerprints_see_what_instructions_do() -> None:
    def made(text: str) -> str | None:
        namespace: dict[str, Any] = {}
        exec(f"def g(context):\n    return {text}\ndef f(x):\n    return g(x)\n", namespace)
        namespace["g"] = Intrinsic(namespace["g"])
        return jit._fingerprint(Kernel(namespace["f"], {}))

    assert made("1") != made("2")
    assert made("1") == made("1")


@njit(cache=True)
def _kernel_of_this_file(x: int) -> int:
    return FACTOR * x


def test_kernels_are_pickled_by_name() -> None:
    from dpsu.kernels.weights import count

    assert pickle.loads(pickle.dumps(count)) is count
    assert pickle.loads(pickle.dumps(_kernel_of_this_file)) is _kernel_of_this_file


def test_versions_of_numba_that_were_not_tried_keep_their_own_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases: list[tuple[str, bool]] = [
        ('"version": "0.68.9"', True),
        ('"version": "0.69.0"', False),
        ("", False),
    ]
    for version, usable in cases:
        monkeypatch.setattr(machine_code, "_version_file", version.encode)
        assert machine_code.usable.__wrapped__() == usable, version
