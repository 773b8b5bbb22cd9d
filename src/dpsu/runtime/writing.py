"""Files that are written whole or not at all.

A file is written beside its target, brought to the disk and then renamed. Symbolic links are
followed. Devices, pipes and sockets are refused: a rename would replace them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import select
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dpsu.errors import INPUT, OutputError, ParameterError, exit_code_of

Write = Callable[[BinaryIO], object]
PIECE = 1 << 20
# Errors of file systems that cannot flush a file or folder to the disk, or lock it.
_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM}
_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a disk",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
}
# Names that are, or are about to be, temporary files of this process.
_partials: set[Path] = set()
# Held while a temporary file is made, and for ever by the thread that ends the process.
_making = threading.Lock()


def check_writable(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise an error before the work if a file cannot be written after it."""
    target = _target_of(path)
    if suffixes and path.suffix not in suffixes:
        raise ParameterError(
            f"cannot write {path.name!r}: its name must end in {', '.join(suffixes)}"
        )
    if not target.parent.is_dir():
        raise OutputError(
            f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}",
            exit_code=INPUT,
        )
    probe = _beside(target)
    _partials.add(probe)
    try:
        os.close(_opened(probe, 0o666))
    except OSError as error:
        raise _failure(path, error) from None
    finally:
        _forget(probe)


def other_than_file(path: Path) -> str | None:
    """What is at this path that a file must not replace, such as "a pipe"; None if it may."""
    found = _found(path)
    if found is None:
        return None
    for is_kind, name in _KINDS.items():
        if is_kind(found.st_mode):
            return name
    target = _found(_followed(path))
    if target is None or not os.path.samestat(target, found):
        return "a deleted file"
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), found):
                return "the standard output or error of this process"
    return None


def _target_of(path: Path) -> Path:
    """The file that is to be written, links followed; an error where there is something else."""
    what = other_than_file(path)
    if what is not None:
        raise OutputError(f"cannot write {str(path)!r}: it is {what}; name a file", exit_code=INPUT)
    return _followed(path)


def leftovers(path: Path) -> list[Path]:
    """Temporary files of this target that runs left behind and that no run is writing."""
    try:
        target = _followed(path)
        pattern = re.compile(rf"\.{re.escape(target.name)}\.([0-9a-f]{{8}}){{1,4}}\.partial")
        found = [each for each in target.parent.iterdir() if pattern.fullmatch(each.name)]
    except OSError:
        return []
    return sorted(each for each in found if each not in _partials and _abandoned(each))


def _abandoned(partial: Path) -> bool:
    """Whether nobody holds the lock of a temporary file; False if that is not known."""
    with contextlib.suppress(OSError):
        found = partial.lstat()
        # A writer locks before it writes, so what is still empty may be about to be locked.
        return stat.S_ISREG(found.st_mode) and found.st_size > 0 and _locked(partial) is False
    return False


def _locked(path: Path) -> bool | None:
    """Whether a process that lives holds the lock of a file; None if that is not known."""
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return True if isinstance(error, BlockingIOError) else None
    finally:
        os.close(descriptor)
    return False


class PendingFile:
    """A result that is whole and only has to be put in its place.

    It is on the disk, beside its target. Only their owner may read `private` files. Other files get
    the mode and, where possible, the owner of the file that they replace. A `tag` of 32 hexadecimal
    digits names the temporary file, for :func:`place_tagged`.
    """

    def __init__(
        self, path: Path, write: Write, *, private: bool = False, tag: str | None = None
    ) -> None:
        self.path, self._target = path, _target_of(path)
        self._file: BinaryIO | None = None
        self._partial = _beside(self._target, tag)
        try:
            _partials.add(self._partial)
            self._file = _made(self._partial, _found(self._target), private=private)
            write(self._file)
            self._file.flush()
            _to_disk(self._file.fileno())
        except OSError as error:
            self.discard()
            raise _failure(path, error) from None
        except BaseException:
            self.discard()
            raise

    def place(self) -> None:
        """Rename it into place: readers see the old file or the new one, never half of one."""
        try:
            if os.name == "nt":
                self._close()
            self._partial.replace(self._target)
            _partials.discard(self._partial)
        except OSError as error:
            raise _failure(self.path, error) from None

    def finish(self) -> None:
        """Close the file, and bring its new name to the disk, too."""
        self._close()
        try:
            sync_folder(self._target.parent)
        except PermissionError:
            # A folder may be writable but not readable.
            return
        except OSError as error:
            raise _failure(self.path, error) from None

    def discard(self) -> None:
        """Remove the temporary file, unless it was put in place."""
        self._close()
        _forget(self._partial)

    def leave(self) -> None:
        """Close the temporary file and let it be, with its name on the disk."""
        self._close()
        try:
            sync_folder(self._target.parent)
        except OSError as error:
            self.discard()
            raise _failure(self.path, error) from None
        finally:
            _partials.discard(self._partial)

    def _close(self) -> None:
        if self._file is not None:
            # An error of what is still in the buffer was reported when it was flushed.
            with contextlib.suppress(OSError):
                self._file.close()


def place_tagged(path: Path, tag: str) -> bool:
    """Rename the temporary file of this tag into place; whether its target is there then.

    Several processes may do so at once.
    """
    partial = _beside(path, tag)
    # In a read-only folder the result may already be in place.
    if partial.exists():
        with contextlib.suppress(FileNotFoundError):
            # Until here only its owner could read it. Now it is for those who may read the folder.
            partial.chmod(path.parent.stat().st_mode & 0o666)
            partial.replace(path)
            sync_folder(path.parent)
    return path.exists()


def sweep() -> None:
    """Remove all temporary files of this process, which is about to end, and make no more."""
    # A file system that does not answer must not keep the process.
    _making.acquire(timeout=1)
    for partial in list(_partials):
        _forget(partial)


def text_writer(text: str) -> Write:
    """A function that writes a text."""
    return lambda file: file.write(text.encode())


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, text_writer(text), private=private)


def write_whole(path: Path, write: Write, *, private: bool = False) -> None:
    """Write beside the target, bring it to the disk and rename: whole or not at all."""
    ready = PendingFile(path, write, private=private)
    try:
        ready.place()
        ready.finish()
    finally:
        ready.discard()


def claim(path: Path, text: str) -> BinaryIO:
    """Make a file that nobody made before; of several processes, one succeeds.

    It gets its name when it is whole, on the disk and locked. The lock is held as long as the
    result is open, which is at most as long as this process lives. Raises FileExistsError if the
    name was taken; after any other error the file is there or not.
    """
    partial = _beside(path)
    _partials.add(partial)
    try:
        file = _made(partial, None, private=False)
        try:
            file.write(text.encode())
            file.flush()
            _to_disk(file.fileno())
            # Unlike a rename, a link never replaces a file.
            os.link(partial, path)
            sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            raise
    finally:
        _forget(partial)
    return file


def claim_again(path: Path) -> BinaryIO | None:
    """Lock a file of :func:`claim` whose process is gone; None if that is not so.

    Raises OSError where there are no locks, because a process that lives cannot be seen there.
    """
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from None
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b")
    except FileNotFoundError:
        return None
    try:
        # Processes that only ask whether it is locked hold a lock for a moment.
        for seconds in (0.0, 0.01, 0.1, 1.0):
            time.sleep(seconds)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its owner may have removed it, and another process made a new one.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                        return file
                break
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def let_go(claimed: BinaryIO) -> None:
    """Close a file that this process claimed, and free its lock, which children may have, too."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import fcntl

        fcntl.flock(claimed, fcntl.LOCK_UN)
    claimed.close()


def unclaim(path: Path, claimed: BinaryIO) -> None:
    """Remove a file that this process claimed, durably, and free its lock."""
    try:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    finally:
        let_go(claimed)


def empty_claim(claimed: BinaryIO) -> None:
    """Empty a file that this process claimed, durably.

    An empty file means: this run drew, and nothing more could be written, so no run may follow.
    """
    os.ftruncate(claimed.fileno(), 0)
    _to_disk(claimed.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _to_disk(descriptor)
    finally:
        os.close(descriptor)


def claimed_by_somebody(path: Path) -> bool:
    """Whether a process that lives made this file by :func:`claim`; False if that is not known."""
    return _locked(path) is True


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, even if the other side takes few at a time."""
    left = memoryview(data)
    while left:
        try:
            taken = os.write(descriptor, left[:PIECE])
        except BlockingIOError:
            # This pipe was made non-blocking; wait until it has room again.
            select.select([], [descriptor], [])
            continue
        if taken == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        left = left[taken:]
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        _to_disk(descriptor)


def _made(partial: Path, replaced: os.stat_result | None, *, private: bool) -> BinaryIO:
    """A new temporary file, locked as long as it is open."""
    descriptor = _opened(partial, 0o600 if private or replaced is not None else 0o666)
    file = os.fdopen(descriptor, "wb")
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
    if replaced is not None and hasattr(os, "fchown"):
        mine = os.fstat(descriptor)
        for user, group in ((replaced.st_uid, -1), (-1, replaced.st_gid)):
            if user not in (-1, mine.st_uid) or group not in (-1, mine.st_gid):
                with contextlib.suppress(OSError):
                    os.fchown(descriptor, user, group)
        if not private:
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, replaced.st_mode & 0o777)
    return file


def _opened(partial: Path, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with _making:
        return os.open(partial, flags | getattr(os, "O_BINARY", 0), mode)


def _to_disk(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _found(path: Path) -> os.stat_result | None:
    """The state of the file at this path, links followed; None if there is none."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _failure(path, error) from None
    except ValueError:
        raise ParameterError(f"cannot write {str(path)!r}: it is not a valid file name") from None


def _followed(path: Path) -> Path:
    """The file that links lead to: its temporary file is made beside it."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _failure(path: Path, error: OSError) -> OutputError:
    """Why a file cannot be written, as the system says it."""
    return OutputError(
        f"cannot write {str(path)!r}: {error.strerror or error}", exit_code=exit_code_of(error)
    )


def _forget(partial: Path) -> None:
    with contextlib.suppress(OSError):
        partial.unlink()
    _partials.discard(partial)


def _beside(path: Path, tag: str | None = None) -> Path:
    return path.with_name(f".{path.name}.{tag or secrets.token_hex(4)}.partial")
