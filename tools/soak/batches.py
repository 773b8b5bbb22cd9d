"""Many small cases in one process that may crash: another goes on behind the case that did it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.soak import data
from tools.soak.cases import Room, Verdict
from tools.soak.running import HUNG, in_child

Case = Callable[[int], list[str]]


def in_batches(
    seeds: Sequence[int], room: Room, prepare: Callable[[Path], Case], seconds: float
) -> list[Verdict]:
    """A verdict for each seed; `prepare` makes, in the child, what judges one.

    A case that takes longer than so many `seconds` hangs.
    """
    verdicts: list[Verdict] = []
    while len(verdicts) < len(seeds):
        left = seeds[len(verdicts) :]
        told, code = in_child(_telling(left, room.fresh(), prepare), seconds)
        for line in told:
            seed, _, trouble = line.partition(" ")
            verdicts.append(Verdict(int(seed), 1, [trouble] if trouble else []))
        if len(told) < len(left):
            what = "it hung" if code == HUNG else f"the process ended with {code}"
            verdicts.append(Verdict(left[len(told)], 1, [what]))
    return verdicts


def _telling(
    seeds: Sequence[int], folder: Path, prepare: Callable[[Path], Case]
) -> Callable[[Callable[[str], None]], None]:
    def work(tell: Callable[[str], None]) -> None:
        case = prepare(folder)
        for seed in seeds:
            one = "; ".join(case(seed)).replace("\n", " ")
            tell(f"{seed} {one}".strip().encode("utf-8", "backslashreplace").decode())

    return work


def everything_said(error: BaseException) -> str:
    """What an error says, with everything that is chained to it."""
    said = ""
    link: BaseException | None = error
    while link is not None:
        said += f"{link!r} {link} {getattr(link, '__notes__', '')}"
        link = link.__cause__ or link.__context__
    return said


def leaks(said: str, how: str) -> list[str]:
    """That something private was said, if it was."""
    piece = data.private_piece(said)
    return [] if piece is None else [f"a private value (…{piece}…) is {how}: {said[:300]!r}"]


def unexpected(error: BaseException) -> str:
    """An error that should not have come out: its type, and where it is from."""
    import dpsu

    package = str(Path(dpsu.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(package)] or frames
    return (
        f"{type(error).__name__} {str(error)[:120]!r} at {Path(frames[-1].filename).name}:"
        f"{frames[-1].lineno}, from {Path(ours[-1].filename).name}:{ours[-1].lineno}"
    )
