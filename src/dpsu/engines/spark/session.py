"""A Spark session for the command line: it prints nothing, and its workers run this Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.engines.spark.quietly import condition_of
from dpsu.errors import TRY_AGAIN, ParameterError
from dpsu.runtime.extras import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
NO_JAVA = (
    f"Spark needs Java {OLDEST_JAVA} or newer, and none was found; install it (on Debian the "
    "package openjdk-17-jre-headless), or set JAVA_HOME"
)
CONNECT = "sc://"


def has_java() -> bool:
    """Whether a Java is installed that Spark 4 runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        return False
    try:
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    return found is not None and int(found.group(1)) >= OLDEST_JAVA


def open_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on a master (local[2], yarn, k8s://...) or on a Connect server (sc://host)."""
    builder: Any = load("pyspark.sql", "spark").SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    if master.startswith(CONNECT):
        builder = builder.remote(master)
    elif not has_java():
        raise ParameterError(NO_JAVA)
    try:
        if not master.startswith(CONNECT):
            _launch(master, settings)
        session: SparkSession = builder.getOrCreate()
        return session
    except Exception as error:
        name = condition_of(error)
    raise ParameterError(
        f"{{master}}: no session of Spark can be opened there ({name}); is a cluster there, and "
        "are the settings right?",
        exit_code=TRY_AGAIN,
        master=master,
    )


def _launch(master: str, settings: Mapping[str, str]) -> None:
    """Start Spark so that nothing it prints reaches the terminal: its errors quote cells."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    # Workers on this machine must find dpsu, so they run this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAppName("dpsu")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    for name, value in settings.items():
        conf.set(name, value)
    launch: Any = launch_gateway
    gateway = launch(conf, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
    SparkContext(conf=conf, gateway=gateway)
