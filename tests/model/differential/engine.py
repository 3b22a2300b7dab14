"""`python -m model.differential.engine delta-spark|rowlock|rowlock-connect`: one engine in a process of its own, asked by lines of JSON and answering so.

{"open": seed, "settings": {...}, "root": folder, "before": [texts]}   a new session with these settings, in a schema of its own
{"attach": folder}                                                      the name `t` for the Delta table there
{"do": text}                                                            a statement; what came of it, and the tables in `root` that it changed

Each line may have a `lane`: what is asked in one lane is done in turn, beside what is asked in the others.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from model.differential.compare import definition

CHEAPER = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.sql.lightweightPlanChangeValidation": "false"}
OF_DELTA_SPARK = CHEAPER | {
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.stateReconstructionValidation.enabled": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "true",
}
"""Settings that change no answer and make small statements cheaper, and the usual one where the session of other tests has another."""
SIZES = re.compile(r"^(min|max|avg|_commit_timestamp)$|[sS]ize|Time|Bytes|Ms$")
ENGINES = ("delta-spark", "rowlock", "rowlock-connect")


@contextmanager
def sessions(name: str) -> Iterator[Callable[[], Any]]:
    """What makes another session of an engine."""
    from support.sessions import delta_session, session_without_delta_spark

    if name == "rowlock-connect":
        from support.connect_server import serving

        with serving(Path.cwd()) as served:
            yield served.session
    elif name == "rowlock":
        import rowlock

        yield rowlock.enable(session_without_delta_spark("differential", CHEAPER)).newSession
    else:
        yield delta_session("differential", OF_DELTA_SPARK).newSession


class Engine:
    """The session of a case, and a session with usual settings that reads what it left."""

    def __init__(self, name: str, new_session: Callable[[], Any], lane: int) -> None:
        self.name = name
        self.new_session = new_session
        self.lane = lane
        self.reader = self.new_session()
        self.session: Any = None
        self.root = Path()
        self.seen: dict[str, int] = {}
        self.contents: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.schemas = 0

    @property
    def schema(self) -> str:
        """The schema of the case."""
        return f"d{self.lane}_{self.schemas}"

    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        """Begins a case."""
        self.root = Path(given["root"])
        self.root.mkdir(parents=True, exist_ok=True)
        self.seen, self.contents = {}, {}
        self.schemas += 1
        self.session = self.new_session()
        if hasattr(self.session, "_jsparkSession"):  # whose settings hold for expressions that delta-spark's builders are given as text
            self.session._get_j_spark_session_class(self.session._jvm).setActiveSession(self.session._jsparkSession)
        self.session.sql(f"CREATE DATABASE {self.schema} LOCATION '{self.root}/wh'")
        self.session.sql(f"USE {self.schema}")
        self.settings = given["settings"]
        self.set()
        for text in given["before"]:
            outcome = self.do(text)
            if "error" in outcome:
                return outcome
        return {}

    def attach(self, folder: str) -> dict[str, Any]:
        """Gives the name `t` to the table in a folder; what else the statements made goes, since it may be there with one engine alone."""
        for name in ("t", "made"):
            self.reader.sql(f"DROP TABLE IF EXISTS {self.schema}.{name}")
        for made in (*(self.root / name for name in ("made", "written", "streamed", "wh/made")), *self.root.glob("checkpoint*")):
            shutil.rmtree(made, ignore_errors=True)
            self.seen.pop(made.relative_to(self.root).as_posix(), None)
        self.reader.sql(f"CREATE TABLE {self.schema}.t USING delta LOCATION '{folder}'")
        self.set()
        self.changed(feed=False)
        return {}

    def set(self) -> None:
        """Sets what the case says.  A step's number is unset by a statement that used it, which one engine alone may have done."""
        for name, value in self.settings.items():
            self.session.conf.set(name, value)

    def do(self, text: str) -> dict[str, Any]:
        """Runs one statement."""
        try:
            return self.answer(self.run(text.replace("{root}", str(self.root)))) | {"tables": self.changed()}
        except Exception as e:
            return self.failure(e) | {"tables": self.changed()}

    def run(self, text: str) -> Any:
        """What a statement returns."""
        if text.startswith("call:") and self.name == "rowlock":
            import rowlock

            return rowlock.sql(self.session, text[5:])
        if not text.startswith("py:"):
            return self.session.sql(text.removeprefix("call:"))
        from pyspark.sql import functions as F

        source = text[3:].lstrip()
        if self.name != "delta-spark":
            from rowlock.tables import DeltaTable

            source = source.replace("delta.tables", "rowlock.tables")
        else:
            from delta.tables import DeltaTable  # type: ignore[assignment]
        names = {"spark": self.session, "F": F, "DeltaTable": DeltaTable}
        tree = ast.parse(source)
        last = tree.body.pop()
        shown = last if isinstance(last, ast.Expr) else ast.Expr(ast.Constant(None))
        tree.body += [last] if shown is not last else []
        exec(compile(tree, "<step>", "exec"), names)
        returned = eval(compile(ast.fix_missing_locations(ast.Expression(shown.value)), "<step>", "eval"), names)
        for query in self.session.streams.active:
            query.processAllAvailable()
            query.stop()
        return returned

    def answer(self, returned: Any) -> dict[str, Any]:
        """Rows and columns of a DataFrame; other values as they are."""
        if not hasattr(returned, "collect"):
            return {"answer": repr(returned).replace(str(self.root), "{root}") if isinstance(returned, str | int | list) else ""}
        rows = [repr(without_sizes(r)).replace(str(self.root), "{root}") for r in returned.collect()]
        return {"answer": returned.schema.simpleString(), "rows": rows}

    def failure(self, error: Exception) -> dict[str, Any]:
        """An error: the names of its classes, its condition, its text.  Ends the process where there is no JVM any more: what it said would be taken for differences."""
        if isinstance(error, ConnectionError):
            print(f"the JVM of {self.name} ended: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        condition = ""
        for name in ("getCondition", "getErrorClass"):
            if not condition and hasattr(error, name):
                condition = getattr(error, name)() or ""
        if not condition and hasattr(error, "java_exception"):  # an exception of the JVM that has no class in PySpark, or whose message PySpark cannot make
            unnamed = re.search(r"Cannot find main error class '(\w+)'", str(error)) or re.search(r"Exception: \[([A-Z_.]+)\]", str(error))
            condition = unnamed[1] if unnamed else ""
        classes = [c.__name__ for c in type(error).__mro__ if c.__module__.startswith(("pyspark", "rowlock", "builtins", "delta"))]
        return {"error": classes, "condition": condition, "text": str(error)[:1500].replace(str(self.root), "{root}")}

    def changed(self, *, feed: bool = True) -> dict[str, Any]:
        """The tables below the root whose newest version is another than at the last look, by folder: what they hold."""
        out: dict[str, Any] = {}
        for log in sorted(self.root.rglob("_delta_log")):
            folder = log.parent.relative_to(self.root).as_posix()
            version = max((int(p.stem) for p in log.glob("*.json") if p.stem.isdigit()), default=-1)
            if self.seen.get(folder, -1) != version:
                commits, self.seen[folder] = version - self.seen.get(folder, -1), version
                content = self.content(str(log.parent), version - commits + 1 if feed else None)
                lasting = {aspect: what for aspect, what in content.items() if aspect != "feed"}
                out[folder] = {"commits": commits, "unchanged": lasting == self.contents.get(folder) and not content.get("feed"), **content}
                self.contents[folder] = lasting
        return out

    def content(self, path: str, since: int | None) -> dict[str, Any]:
        """What a table is: its definition, its rows, and its changes from a version on where it keeps a feed (a statement may be followed by a compaction).  Both engines' tables are read in the same way, without Spark."""
        import rowlock

        out: dict[str, Any] = definition(Path(path))
        try:
            out["rows"] = rows_of(rowlock.to_arrow(path, time_zone="UTC"))
        except Exception:
            out["rows"] = self.read(path)
        if since is not None and json.loads(out["properties"]).get("delta.enableChangeDataFeed", "").lower() == "true":
            out["feed"] = self.read(path, readChangeFeed="true", startingVersion=since)
        return out

    def read(self, path: str, **options: Any) -> list[str]:
        """The rows of a table as the engine itself reads them."""
        try:
            return rows_of(self.reader.read.format("delta").options(**options).load(path).toArrow())
        except Exception as e:
            return [f"not readable: {type(e).__name__} {str(e)[:600]}"]


def without_sizes(value: Any) -> Any:
    """A row of an answer without the sizes of files and the times, which are each engine's own."""
    if hasattr(value, "asDict"):
        return tuple(without_sizes(v) for k, v in value.asDict().items() if not SIZES.search(k))
    return value


def rows_of(table: Any) -> list[str]:
    """The rows of an Arrow table as sorted text, without the times and numbers of commits, which are each engine's own."""
    kept = [n for n in table.column_names if n not in ("_commit_timestamp", "_commit_version")]
    return sorted(repr(row) for row in zip(*(table[n].to_pylist() for n in kept), strict=True))


def said_to(engine: Engine, given: dict[str, Any]) -> dict[str, Any]:
    """The answer to a line."""
    try:
        if "open" in given:
            return engine.open(given)
        if "read" in given:
            return {"rows": engine.read(given["read"])}
        return engine.attach(given["attach"]) if "attach" in given else engine.do(given["do"])
    except Exception as e:
        return engine.failure(e) | {"broken": True}


def main() -> int:
    """Answers until the input ends."""
    answers, one_at_a_time = os.fdopen(os.dup(1), "w"), Lock()
    os.dup2(2, 1)  # whatever prints goes to stderr
    lanes: dict[int, SimpleQueue[Any]] = {}

    def say(lane: int, said: dict[str, Any]) -> None:
        line = json.dumps({"lane": lane, "said": said}, default=repr)
        with one_at_a_time:
            print(line, file=answers, flush=True)

    with sessions(sys.argv[1]) as new_session:

        def serve(lane: int) -> None:
            engine = Engine(sys.argv[1], new_session, lane)
            while (given := lanes[lane].get()) is not None:
                say(lane, said_to(engine, given))

        say(0, {"ready": True})
        for line in sys.stdin:
            given = json.loads(line)
            if (lane := given.pop("lane")) not in lanes:
                lanes[lane] = SimpleQueue()
                Thread(target=serve, args=(lane,), daemon=True).start()
            lanes[lane].put(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
