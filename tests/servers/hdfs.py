"""HDFS with one name node and one data node in one process: Hadoop's MiniDFSCluster."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

from servers.process import Process, free_port, run
from servers.programs import jars, java


@dataclass(frozen=True)
class Hdfs:
    process: Process
    uri: str

    def fresh_root(self) -> str:
        """A place for one table that nobody has used."""
        return f"{self.uri}/tables/{uuid.uuid4()}"


def start() -> Hdfs:
    """Raises Missing where there are no JARs of it, or no Java."""
    folder, program = jars("hdfs"), java("HDFS")
    details: list[Path] = []

    def command(port: int, place: Path) -> list[str]:
        details[:] = [place / "details.json"]
        small = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={place}/data", f"-Dtest.build.dir={place}/data"]
        main = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
        settings = ["-D", "dfs.permissions.enabled=true", "-D", "dfs.replication=1"]
        ports = ["-nnport", str(port), "-nnhttpport", str(free_port())]
        return [program, *small, "-cp", f"{folder}/*", main, *settings, "-nomr", "-format", "-datanodes", "1", *ports, "-writeDetails", str(details[0])]

    def answers(_: int) -> bool:
        return details[0].exists() and bool(json.loads(details[0].read_text() or "{}"))

    process, port = run("hdfs", command, answers, timeout_s=120)
    return Hdfs(process, f"hdfs://127.0.0.1:{port}")
