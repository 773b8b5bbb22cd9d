"""What must hold after a release on the command line, however it ended."""

from __future__ import annotations

import io
import re
import signal
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

from tools.soak import data, running
from tools.soak.cases import Room
from tools.soak.running import Ended

DATASET, BUDGET = "visits", "50,0.1"
LEDGER = "ledger.db"
# Folders of a case whose content counts too: one on a full disk, one for temporary files.
FULL, TEMPORARY = "full", "temporary"
OLD = b"what was there before\n"
# What reports and files say of a run, and differs between two of them: its id and its time.
OF_ONE_RUN = re.compile(rb"\b[0-9a-f]{32}\b|\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
ABSENT, WAS, NEW, PART, BROKEN = "absent", "old", "new", "in part", "broken"
DONE, VOID = "done", "void"
# It failed; what is typed or read is wrong; it is refused; another try may do.
FAILED = (1, 2, 3, 75)


@dataclass(frozen=True)
class Task:
    """A release to run: where it reads and writes, and what was there before.

    `output` None means standard output. `typed` stands for the source on the command line, if it
    is to be read by another name.
    """

    mechanism: str = "weighted-gaussian"
    source: str = "rows.csv"
    users: int = 300
    output: str | None = "items.txt"
    report: str | None = None
    ledger: str | None = None
    charged_before: bool = False
    replaces: bool = False
    public: bool = False
    words: tuple[str, ...] = ()
    typed: str | None = None
    once: bool = False

    def arguments(self) -> list[str]:
        """What is typed behind `dpsu`."""
        typed = ["release", self.typed or self.source]
        typed += ["--format", Path(self.source).suffix[1:]] if self.typed else []
        typed += ["--epsilon", f"{data.EPSILON:g}", "--delta", "1e-9"]
        typed += ["--mechanism", self.mechanism, *data.CERTAIN[self.mechanism], *self.words]
        typed += ["--output", self.output] if self.output else []
        typed += ["--report", self.report] if self.report else []
        typed += ["--public-items", "known.txt"] if self.public else []
        if self.ledger:
            typed += ["--ledger", self.ledger, "--dataset", DATASET]
            typed += [] if self.charged_before else ["--budget", BUDGET]
            typed += ["--once", "week"] if self.once else []
        return typed

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the files that it writes."""
        return tuple(name for name in (self.output, self.report) if name)


@dataclass(frozen=True)
class Reference:
    """What a task writes when nobody disturbs it."""

    items: bytes
    report: bytes


def prepare(task: Task, folder: Path, room: Room) -> None:
    """Put in place what a task reads, and what was there before."""
    (folder / task.source).write_bytes(_source(task, room))
    if task.public:
        (folder / "known.txt").write_text("\n".join(data.PUBLIC) + "\n", encoding="utf-8")
    if task.replaces:
        for name in task.written:
            (folder / name).write_bytes(OLD)
    if task.ledger and task.charged_before:
        (folder / task.ledger).write_bytes(_charged_once(room))


def reference(task: Task, room: Room) -> Reference:
    """What the task writes when nobody disturbs it; made once for tasks that write the same."""
    key = (
        "reference", task.mechanism, task.users, task.public, task.words, task.source,
        Path(task.output or "").suffix, Path(task.report or "").suffix, bool(task.ledger),
    )  # fmt: skip
    known = room.memory.get(key)
    if not isinstance(known, Reference):
        known = room.memory[key] = _undisturbed(replace(task, typed=None), room)
    return known


def judge(
    task: Task, folder: Path, ended: Ended, room: Room, *, sent: int | None = None,
    silently: bool = False,
) -> list[str]:  # fmt: skip
    """Everything that is wrong with how a task ended; `sent` is the signal that disturbed it.

    `silently` says that it may fail without a word.
    """
    expected = reference(task, room)
    hard = sent == signal.SIGKILL
    items = (
        _state(ended.stdout or None, expected.items, replaces=False, stream=True)
        if task.output is None
        else _state(content_of(folder / task.output), expected.items, replaces=task.replaces)
    )
    report = ABSENT
    if task.report is not None:
        report = _state(content_of(folder / task.report), expected.report, replaces=task.replaces)
    troubles = _about_files(task, items, report)
    troubles += _about_the_end(task, ended, items, report, sent=sent, silently=silently)
    troubles += [] if hard else _left_behind(task, folder)
    if task.ledger:
        troubles += _about_the_ledger(task, folder / task.ledger, ended, items, report)
    return troubles


def _state(found: bytes | None, new: bytes, *, replaces: bool, stream: bool = False) -> str:
    if found is None:
        # Replacing must never leave a moment without either of the two.
        return BROKEN if replaces else ABSENT
    if found == new:
        return NEW
    if replaces and found == OLD:
        return WAS
    return PART if stream and new.startswith(found) else BROKEN


def _about_files(task: Task, items: str, report: str) -> list[str]:
    troubles = []
    if items == BROKEN:
        troubles.append("the items are neither the old file, nor the new one, nor absent")
    if report == BROKEN:
        troubles.append("the report is neither the old file, nor the new one, nor absent")
    if report == NEW and items != NEW:
        troubles.append(f"a report without items (items: {items})")
    return troubles


def _about_the_end(
    task: Task, ended: Ended, items: str, report: str, *, sent: int | None, silently: bool
) -> list[str]:
    troubles = said_wrongly(ended.stderr) + breakdowns(ended.stdout.decode(errors="replace"))
    by_signal = () if sent is None else (-sent, 128 + sent)
    if ended.code == running.HUNG:
        troubles.append("it hung")
    elif ended.code not in (0, *FAILED, *by_signal):
        troubles.append(f"it ended with {ended.code}: {ended.stderr.strip()[-200:]}")
    complete = items == NEW and (task.report is None or report == NEW)
    if ended.code == 0 and not complete:
        troubles.append(f"it ended with 0, items {items}, report {report}")
    wrote = items in (NEW, PART) or report == NEW
    if "no output was written" in ended.stderr and wrote:
        troubles.append(f"it says that no output was written, items {items}, report {report}")
    if ended.code in FAILED and not silently and not ended.stderr.strip():
        troubles.append("it failed without a word")
    return troubles


def said_wrongly(stderr: str) -> list[str]:
    """What must never be said: private values, tracebacks, and that something is a defect."""
    piece = data.private_piece(stderr)
    private = [] if piece is None else [f"it says a private value (…{piece}…)"]
    return private + breakdowns(stderr)


def breakdowns(said: str) -> list[str]:
    """Tracebacks, and words that something is a defect, wherever they are printed."""
    import dpsu

    troubles = []
    # What the interpreter says before the command listens, so while modules are imported, is not
    # ours.
    package = re.escape(str(Path(dpsu.__file__).parent))
    importing = re.search(rf'File "{package}(?!/__main__)\S*", line \d+, in <module>', said)
    frames = re.findall(rf'File "{package}\S*?/(\w+\.py)", line (\d+), in (\w+)', said)
    if "Traceback (most recent call last)" in said and frames and not importing:
        path = " > ".join(f"{file}:{line} {name}" for file, line, name in frames[-3:])
        troubles.append(f"a traceback: {said.strip().splitlines()[-1][:100]} ({path})")
    if "this is a defect" in said:
        found = re.search(r"unexpected .*?;", said)
        troubles.append(f"it calls itself defective: {found[0] if found else said[-200:]}")
    return troubles


def _left_behind(task: Task, folder: Path) -> list[str]:
    expected = {task.source, "known.txt", "filler", *task.written}
    expected |= {f"{task.ledger}", f"{task.ledger}-journal", f"{FULL}/filler"}
    left = [path.name for path in folder.iterdir() if path.is_file()]
    for inside in (FULL, TEMPORARY):
        if (folder / inside).is_dir():
            left += [f"{inside}/{path.name}" for path in (folder / inside).iterdir()]
    left = sorted(set(left) - expected)
    return [f"left behind: {', '.join(left)[:200]}"] if left else []


def _about_the_ledger(task: Task, ledger: Path, ended: Ended, items: str, report: str) -> list[str]:
    found = entries(ledger)
    if isinstance(found, str):
        return [f"ledger: {found}"]
    states = found[1:] if task.charged_before else found
    wrote = items in (NEW, PART) or report == NEW
    complete = items == NEW and (task.report is None or report == NEW)
    excused = "not on record as done" in ended.stderr or "--quiet" in task.words
    wrong = {
        "an earlier entry is gone": task.charged_before and not found,
        "charged twice": len(states) > 1,
        "nothing was charged": wrote and not states,
        "it says done": DONE in states and not complete,
        f"{states} after success": ended.code == 0 and DONE not in states and not excused,
    }
    told = f"items {items}, report {report}"
    return [f"ledger: {what}, {told}" for what, is_so in wrong.items() if is_so]


def entries(ledger: Path) -> list[str] | str:
    """States of all releases that count, or what is wrong with the file."""
    import dpsu

    if not ledger.exists() or not ledger.stat().st_size:
        return []
    verdict = _integrity(ledger)
    if verdict is not None:
        return verdict
    try:
        found = dpsu.Ledger(ledger).account(DATASET).releases
    except dpsu.ParameterError:
        return []
    except dpsu.DpsuError as error:
        return str(error)
    return [entry.state for entry in found if entry.state != VOID]


def _integrity(ledger: Path) -> list[str] | str | None:
    """What is wrong with a database, or no states if it holds nothing yet."""
    connection = sqlite3.connect(ledger)
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        (parts,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return str(error)
    finally:
        connection.close()
    return None if verdict == "ok" and parts else [] if verdict == "ok" else str(verdict)


def content_of(path: Path) -> bytes | None:
    """What a file holds, but for what differs from run to run; None if there is none."""
    return _of_any_run(path.name, path.read_bytes()) if path.exists() else None


def _of_any_run(name: str, content: bytes) -> bytes:
    """What a file holds whichever run wrote it: Parquet without what is said about the table."""
    if not name.endswith(".parquet"):
        return OF_ONE_RUN.sub(b"", content)
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pa.parquet.read_table(io.BytesIO(content)).replace_schema_metadata()
    except (pa.ArrowException, OSError):
        return content
    told = io.BytesIO()
    with pa.ipc.new_stream(told, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return told.getvalue()


def _source(task: Task, room: Room) -> bytes:
    key = ("source", task.source, task.users)
    known = room.memory.get(key)
    if not isinstance(known, bytes):
        made = data.as_json_lines if task.source.endswith("jsonl") else data.as_csv
        known = room.memory[key] = made(task.users)
    return known


def _charged_once(room: Room) -> bytes:
    known = room.memory.get("charged once")
    if not isinstance(known, bytes):
        folder = room.fresh()
        task = Task(ledger=LEDGER)
        prepare(task, folder, room)
        running.run_to_the_end(task.arguments(), folder)
        known = room.memory["charged once"] = (folder / LEDGER).read_bytes()
    return known


def _undisturbed(task: Task, room: Room) -> Reference:
    folder = room.fresh()
    (folder / FULL).mkdir()
    prepare(task, folder, room)
    ended = running.run_to_the_end(task.arguments(), folder)
    if ended.code:
        raise RuntimeError(f"undisturbed, {task} fails: {ended.stderr[-500:]}")
    items = ended.stdout if task.output is None else content_of(folder / task.output)
    report = b"" if task.report is None else content_of(folder / task.report)
    if items is None or report is None:
        raise RuntimeError(f"undisturbed, {task} writes nothing")
    _check_reference(task, items)
    return Reference(items, report)


def _check_reference(task: Task, items: bytes) -> None:
    """A reference must hold what is certain, or nothing that is compared with it means much."""
    if (task.output or "").endswith(".parquet"):
        return
    text = items.decode()
    wanted = (*data.COMMON, *(data.PUBLIC if task.public else ()))
    if not all(item in text for item in wanted) or data.SECRET_MARK in text:
        raise RuntimeError(f"undisturbed, {task} does not release what is certain")
