"""Spark's standalone cluster, from the wheel of pyspark: a master, and workers whose executors are processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from servers.process import Process, free_port, run, status
from servers.programs import java

_SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Worker:
    """A worker with its executors, all processes of one session."""

    process: Process
    port: int

    @property
    def executors(self) -> list[int]:
        """The processes of the executors, JVMs and what they began, by their ids."""
        return [p for p in _processes_of(self.process.session) if b"CoarseGrainedExecutorBackend" in _command(p)]

    def kill(self) -> int:
        """Kills the worker and its executors at once, as a machine that loses its power; returns how many executors it had."""
        executors = self.executors
        for pid in _processes_of(self.process.session):
            if pid != self.process.session:  # the keeper, which removes the folder
                _kill(pid)
        self.process.stop()
        return len(executors)


@dataclass
class SparkCluster:
    """A master and its workers.  `process` is the master's."""

    process: Process
    port: int
    web_port: int
    cores: int
    memory_mb: int
    workers: list[Worker] = field(default_factory=list)
    started: int = 0

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def add_worker(self) -> Worker:
        """Starts a worker and waits until it listens."""
        main, self.started = "org.apache.spark.deploy.worker.Worker", self.started + 1
        host = f"127.0.0.{self.started + 1}" if sys.platform == "linux" else "127.0.0.1"  # Spark tries no task twice on one host

        def command(port: int, folder: Path) -> list[str]:
            size = ["--cores", str(self.cores), "--memory", f"{self.memory_mb}m", "--work-dir", f"{folder}/work"]
            return [*_java(), main, "--host", host, "--port", str(port), "--webui-port", str(free_port()), *size, self.master]

        process, port = run("spark-worker", command, lambda port: _listens(host, port), environment=_environment(host))
        worker = Worker(process, port)
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> int:
        """Kills a worker and its executors; returns how many executors it had."""
        self.workers.remove(worker)
        return worker.kill()

    def stop(self) -> None:
        """Ends all of it."""
        for worker in list(self.workers):
            self.kill(worker)
        self.process.stop()


def start(*, workers: int = 2, cores: int = 2, memory_mb: int = 2048) -> SparkCluster:
    """A cluster whose workers have so many cores and so much memory each.  Raises Missing where there is no Java, DidNotStart."""
    main, web = "org.apache.spark.deploy.master.Master", free_port()

    def command(port: int, _: Path) -> list[str]:
        return [*_java(), main, "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]

    process, port = run("spark-master", command, lambda _: status(f"http://127.0.0.1:{web}/") == 200, environment=_environment())
    cluster = SparkCluster(process, port, web, cores, memory_mb)
    try:
        for _ in range(workers):
            cluster.add_worker()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _java() -> list[str]:
    return [java("A Spark cluster"), *_SMALL, "-cp", f"{_home()}/jars/*"]


def _home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _environment(host: str = "127.0.0.1") -> dict[str, str]:
    return {"SPARK_HOME": str(_home()), "SPARK_LOCAL_IP": host, "SPARK_SCALA_VERSION": "2.13"}


def _listens(host: str, port: int) -> bool:
    with socket.create_connection((host, port), timeout=2):
        return True


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _processes_of(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
