"""A PostgreSQL of the tests' own, on loopback, gone when they are done."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "Zzmarkerpassword"
OWNER = "owner"
MISSING = "PostgreSQL cannot be started here; install the Debian package postgresql to test it"


def binaries() -> Path | None:
    """Where initdb and pg_ctl are."""
    on_path = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(on_path).resolve().parent if on_path else found[-1].parent if found else None


def unprivileged() -> str | None:
    """PostgreSQL refuses to run as root; somebody else has to."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


@contextlib.contextmanager
def postgres() -> Iterator[str | None]:
    """The URI of a fresh server, None where there can be none."""
    programs, user = binaries(), unprivileged()
    root = os.geteuid() == 0
    if programs is None or (root and (user is None or shutil.which("runuser") is None)):
        yield None
        return
    # Not below pytest's own folder, which nobody else may enter.
    folder = Path(tempfile.mkdtemp(prefix="dpsu-postgres-"))
    become = ["runuser", "-u", str(user), "--"] if root else []
    (folder / "password").write_text(PASSWORD)
    if root:
        for path in (folder, folder / "password"):
            shutil.chown(path, str(user))

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [*become, str(programs / program), "-D", str(folder / "data"), *arguments],
            check=True, cwd=folder, timeout=120, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    try:
        run(
            "initdb", "-U", OWNER, "-A", "scram-sha-256", "--pwfile", str(folder / "password"),
            "-E", "UTF8", "--no-locale", "--no-sync",
        )  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -F"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
