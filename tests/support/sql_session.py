"""Statements in Spark sessions with Rowlock enabled and without delta-spark: `rowlock.enable` changes a session for good.

One process, and so one JVM, serves all that a test process asks; each request has a session, a warehouse and a catalog that hold nothing of what was
before.  A step is a text of SQL, [text, args], or a Python expression after `py:`.  What came of each step is told as a dict: its rows or its error, and
what lay in the folders that the caller watches.

As a program it is that process: it reads requests as lines of JSON and answers each with one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

SRC, TESTS = str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])


def run_steps(folder: Path, steps: Sequence[Any], watched: Sequence[str]) -> list[dict[str, Any]]:
    """What came of each step, in one new session whose warehouse lies in `folder`."""
    return _asked({"folder": str(folder), "steps": list(steps), "watched": list(watched)})  # type: ignore[no-any-return]


def run_readers(folder: Path, writes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What `support.readers_after_writes` observes of these writes, in one new session whose warehouse lies in `folder`."""
    return _asked({"folder": str(folder), "writes": list(writes)})  # type: ignore[no-any-return]


def run_own_reads(folder: Path, name: str, *args: Any) -> dict[str, Any]:
    """What a function of `support.own_reads` returns, in one new session whose warehouse lies in `folder`."""
    (told,) = run_steps(folder, [f"py: __import__('support.own_reads', fromlist=['*']).{name}(spark, *{args!r})"], [])
    assert "rows" in told, told
    return told["rows"]  # type: ignore[no-any-return]


def _asked(request: dict[str, Any]) -> Any:
    process, errors = _server()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        process.wait(60)
        _server.cache_clear()
        raise AssertionError(f"the process of the sessions has ended: {Path(errors.name).read_text()[-3000:]}")
    told = json.loads(answer)
    assert "failed" not in told, told["failed"]
    return told["told"]


@functools.cache
def _server() -> tuple[subprocess.Popen[str], IO[str]]:
    """The process, which ends when this one does; what it prints besides its answers is in a file."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((SRC, TESTS)), "PYSPARK_PYTHON": sys.executable}
    place = tempfile.TemporaryDirectory(prefix="rowlock-sql-session-")
    errors = open(Path(place.name) / "stderr", "w")  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, "-m", "support.sql_session"],
        cwd=place.name,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    _PLACES.append(place)
    return process, errors


_PLACES: list[tempfile.TemporaryDirectory[str]] = []


def _serve() -> None:
    import rowlock
    from support.sessions import session_without_delta_spark

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed is no answer
    first = rowlock.enable(session_without_delta_spark("rowlock tests of SQL"))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with _session(first, Path(request["folder"])) as session:
                told = {"told": _observed(session, request) if "writes" in request else _steps(session, request)}
        except Exception as e:
            told = {"failed": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(told, default=str) + "\n")
        answers.flush()
    first.stop()


@contextlib.contextmanager
def _session(first: Any, folder: Path) -> Iterator[Any]:
    """A new session, whose tables lie in `folder`; all that it made in the catalog is forgotten at the end."""
    session = first.newSession()
    jvm, shared = session._jvm, session._jsparkSession.sharedState()
    jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
    jvm.org.apache.spark.sql.SparkSession.setDefaultSession(session._jsparkSession)
    session.sql(f"ALTER DATABASE default SET LOCATION '{folder}/spark-warehouse'")
    os.chdir(folder)
    try:
        yield session
    finally:
        for query in session.streams.active:
            query.stop()
        session.catalog.clearCache()
        for view in first.sql("SHOW VIEWS IN global_temp").collect():
            first.catalog.dropGlobalTempView(view.viewName)
        catalog = shared.externalCatalog().unwrapped()
        for name in _names(catalog.listTables("default")):
            catalog.dropTable("default", name, True, True)
        for name in _names(catalog.listDatabases()):
            if name != "default":
                catalog.dropDatabase(name, True, True)


def _names(found: Any) -> list[str]:
    return [found.apply(n) for n in range(found.size())]


def _observed(session: Any, request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    import rowlock
    from support.readers_after_writes import observe

    return observe(session, rowlock.DeltaTable, Path(request["folder"]) / "spark-warehouse", request["writes"])


def _steps(session: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F

    import rowlock
    from rowlock.tables import DeltaTable, IdentityGenerator
    from support.outcomes import outcome_of

    names = {"spark": session, "rowlock": rowlock, "F": F, "DeltaTable": DeltaTable, "IdentityGenerator": IdentityGenerator}
    rowlock.enable(session)  # a second time changes nothing
    told = []
    for step in request["steps"]:
        text, args = step if isinstance(step, list) else (step, None)
        try:
            said = {"rows": _rows_of(eval(text[3:], names) if text.startswith("py:") else session.sql(text) if args is None else session.sql(text, args))}
        except BaseException as e:
            said = outcome_of(e)
        told.append(said | {"files": [_files(f) for f in request["watched"]]})
    return told


def _rows_of(answer: Any) -> Any:
    return [list(r) for r in answer.collect()] if hasattr(answer, "collect") else answer


def _files(folder: str) -> list[str]:
    return sorted(f"{os.path.join(at, n)} {os.path.getsize(os.path.join(at, n))}" for at, _, names in os.walk(folder) for n in names)


if __name__ == "__main__":
    _serve()
