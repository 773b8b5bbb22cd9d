"""Releases over Spark Connect: starts a server on the loopback, prints what came out.

Started by a test as a process of its own: a session of Connect and another cannot live together.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(port: int, folder: str) -> subprocess.Popen[bytes]:
    """A server that only this machine can reach."""
    import pyspark

    (Path(folder) / "events").mkdir()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (Path(folder) / "events").as_uri(),
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += [
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]
    env = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    log = (Path(folder) / "server.log").open("wb")
    return subprocess.Popen(command, env=env, stdout=log, stderr=log)


def main() -> None:
    """Release all that was asked for, over one connection."""
    # This is a script: Python looks for modules beside it, and the root of the project is above.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.support import flat

    folder, table, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    port = free_port()
    server = start(port, folder)
    try:
        deadline = time.time() + 600
        while time.time() < deadline and server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        from pyspark.sql import SparkSession

        import dpsu.spark
        from dpsu.randomness.keys import Key

        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        df = spark.read.parquet(table)
        found = []
        for options in asked:
            release = flat.spark_release(df, partitions=2, **options)
            rows = [list(row) for row in release.items.collect()]
            assert [row[0] for row in rows] == list(release.released.items)
            found.append(rows)
        item = dpsu.Values(["user", "item"], types={"user": "text"})
        wide = df.selectExpr("user as `i.d`", "user", "item")
        plan = dpsu.plan(
            user="i.d", item=item, mechanism="weighted-gaussian",
            epsilon=4.0, delta=0.05, insecure_seed=4,
        )  # fmt: skip
        values = dpsu.spark.domains(wide, plan, partitions=2)
        try:
            dpsu.spark.release(
                df.selectExpr("cast(item as int) as user", "item"), epsilon=1, delta=0.1
            )
            refused = ""
        except dpsu.DataError as error:
            refused = str(error)
        kind = type(df).__module__
        secrets = [
            Key.from_insecure_seed(options["insecure_seed"]).secret.hex() for options in asked
        ]
        spark.stop()
    finally:
        server.terminate()
        server.wait(30)
    told = {"kind": kind, "found": found, "refused": refused, "secrets": secrets}
    print(json.dumps(told | {"values": values.to_dict()}))


if __name__ == "__main__":
    main()
