"""A standalone cluster on the loopback: one master and its workers, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Far beyond what processes need to start; only a cluster that never comes up takes so long.
PATIENCE = 300.0
SETTINGS = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    # They are started for a minute: there is no time to optimize.
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    # Nobody submits jobs by REST, and its port would be the same for every cluster.
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}


class Cluster:
    """The address of a master and what runs below it."""

    def __init__(self, url: str, page: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.url, self.workers = url, workers
        self._page = page

    def alive(self) -> int:
        """How many workers the master knows to be alive."""
        # No proxy: this is our own machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self._page}/json/", timeout=PATIENCE) as answer:
            state: dict[str, Any] = json.load(answer)
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])


@contextmanager
def cluster(folder: Path, python: str, workers: int = 2) -> Iterator[Cluster]:
    """A cluster whose workers have one core each; its processes end with the context."""
    variables = os.environ | SETTINGS | {"PYSPARK_PYTHON": python}
    variables["SPARK_LOCAL_DIRS"] = str(folder)
    with ExitStack() as processes:

        def start(kind: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
            return processes.enter_context(_daemon(kind, log, variables, arguments))

        log = folder / "master.log"
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = start("master.Master", log, *ports)
        url = _until(lambda: _told(log, r"Starting Spark master at (spark://\S+)"), master)
        page = _until(lambda: _told(log, r"MasterWebUI .*started at http://\S+:(\d+)"), master)
        started = [
            start(
                "worker.Worker", folder / f"worker-{number}.log", *ports, "--cores", "1",
                "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"), url,
            )
            for number in range(workers)
        ]  # fmt: skip
        found = Cluster(url, f"http://127.0.0.1:{page}", started)
        _until(lambda: found.alive() == workers, master, *started)
        yield found


@contextmanager
def _daemon(
    kind: str, log: Path, variables: dict[str, str], arguments: tuple[str, ...]
) -> Iterator[subprocess.Popen[bytes]]:
    import pyspark

    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    if shutil.which("setpriv"):
        # Should the tests themselves be killed, nobody would be left to end this process.
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=variables | {"SPARK_HOME": str(home)}
        )
    try:
        yield process
    finally:
        kill(process.pid)
        process.wait()


def kill(root: int) -> None:
    """Kill a process with all its descendants at once, as if a machine had lost its power."""
    for pid in [root, *descendants(root)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(root: int) -> list[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found = list(children.get(root, []))
    for pid in found:
        found += children.get(pid, [])
    return found


def _until(wanted: Callable[[], T], *running: subprocess.Popen[bytes]) -> T:
    """Wait for something to be there, as long as these processes run."""
    deadline = time.monotonic() + PATIENCE
    while not (found := wanted()):
        assert all(process.poll() is None for process in running), "a process has ended"
        assert time.monotonic() < deadline, "the cluster does not come up"
        time.sleep(0.05)
    return found


def _told(log: Path, words: str) -> str:
    found = re.search(words, log.read_text("utf-8", errors="replace"))
    return "" if found is None else found.group(1)
