"""Runs one case: the table is made, the winners commit inside the losers' transactions, and every version is compared with the oracle's."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rowlock
from model.swarm import checks
from model.swarm.bags import bag, difference
from model.swarm.history import Case, Contest, case_of
from model.swarm.limits import turned_down
from model.swarm.oracles import Model, Refused, duckdb_model, spark_model
from model.swarm.paths import counted
from model.swarm.physical import Reader, Version, versions
from model.swarm.statements import Step
from model.swarm.world import CONFLICT, RAISES, World
from rowlock.exceptions import SchemaMismatch, StatementRefused, UnsupportedFeature
from rowlock.transaction.state.phases import Observer, use_observer

_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


@dataclass
class Result:
    """What became of a case."""

    seed: int
    axes: dict[str, str] = field(default_factory=dict)
    paths: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    error: str = ""
    trace: str = ""
    seconds: float = 0.0
    shares: Counter[str] = field(default_factory=Counter)
    """Seconds by what they were spent on."""

    @property
    def again(self) -> str:
        return f'make swarm ARGS="--seeds {self.seed}"'


class _Winners(Observer):
    """Lets the winners of round 0 commit when the whole program is staged, the others before the puts."""

    def __init__(self, play: Play, contest: Contest) -> None:
        self.play, self.rounds, self.staging = play, [list(r) for r in contest.rounds], len(contest.program)

    def phase(self, name: str, txn: Any) -> None:
        if name == "staged":
            self.staging -= 1
            if self.staging == 0:
                self._next()
        elif name == "before_put" and self.staging <= 0 and self.rounds:
            self._next()

    def _next(self) -> None:
        for step in self.rounds.pop(0) if self.rounds else ():
            with use_observer(Observer()):
                self.play.transaction([step], "W")


class Play:
    """A case as it goes on."""

    def __init__(self, spark: Any, case: Case, folder: Path, result: Result) -> None:
        self.spark, self.case, self.result = spark, case, result
        self.path = folder / f"case-{case.seed}" / "table"
        self.world = World(spark, self.path, case.table, random.Random(f"world {case.seed}"))
        self.model = self._model()
        self.reader = Reader(self.path, case.table.roles | {"extra": "int"}, case.axes["zone"])
        self.head: Version | None = None
        self.ids: dict[Any, int] = {}
        self.altered = False

    def _model(self) -> Model:
        return duckdb_model(self.case.table) if self.case.axes["oracle"] == "duckdb" else spark_model(self.case.table, self.spark)

    def run(self) -> None:
        case = self.case
        start = time.monotonic()
        if case.earlier is not None:
            self._an_earlier_table(case.earlier)
        self.result.shares["earlier table"] += time.monotonic() - start
        start = time.monotonic()
        self.world.create(case.axes["origin"], case.files)
        self.result.shares["making"] += time.monotonic() - start
        from model.swarm.statements import Step as Made

        for rows in case.files:
            self.model.run([Made("append", rows=rows)])
        self.world.restorable = self.world.version
        self.check(first=True)
        for step in case.before:
            self.transaction([step], "A")
        for contest in case.contests:
            self.contest(contest)
        self.at_the_end()

    def _an_earlier_table(self, files: list[Any]) -> None:
        """Another table was here, was read and was changed, and is gone."""
        self.world.create(self.case.axes["origin"] if self.case.axes["origin"] == "converted" else "arrow append", files)
        self.world.run([Step("update", sets=(("v", _one()),))])
        rowlock.to_arrow(str(self.path))
        shutil.rmtree(self.path)
        self.world = World(self.spark, self.path, self.case.table, random.Random(f"world {self.case.seed}"))

    def contest(self, contest: Contest) -> None:
        """A transaction, and those that commit before it does."""
        self.altered, winners = False, _Winners(self, contest)
        with use_observer(winners):
            self.transaction(contest.program, "T")
        left, winners.rounds = winners.rounds, []
        for steps in left:
            for step in steps:
                self.transaction([step], "W")

    def transaction(self, steps: list[Step], who: str) -> None:
        """One transaction by Rowlock or another engine, then by the oracle: both raise or neither, and the rows are the same."""
        self.altered |= steps[0].kind in ("add column", "rename column", "add constraint", "restore", "set property")
        shown = "; ".join(s.shown(self.world.columns) for s in steps)
        self.world.restored = None
        at_first = len(self.result.story)
        start = time.monotonic()
        raised, receipt = _outcome(lambda: self.world.run(steps))
        self.result.shares[f"{who} {steps[0].label}"] += time.monotonic() - start
        said = "" if raised is None else f" -> {type(raised).__name__}"
        self.result.story.append(f"{who}  {shown}{said}")
        renamed = self.altered and (
            isinstance(raised, SchemaMismatch) or "UNRESOLVED_COLUMN" in str(raised)
        )  # planned again, it names a column as it was called before
        if renamed or (raised is not None and isinstance(raised, CONFLICT) and self._may_conflict(steps)):
            self.result.steps[f"conflict {type(raised).__name__}"] += 1
            return
        if raised is not None and not isinstance(raised, RAISES):
            raise AssertionError(f"{shown}: an error that serial execution has not: {raised!r}") from raised
        if self.world.restored is not None and steps[0].kind == "restore":
            self.model.rows, self.world.restored = self.model.versions[self.world.restored], None
            self.check()
            self.result.steps["restore"] += 1
            return
        if receipt is not None and receipt.version is None and receipt.rounds == 0 and raised is None and len(self.result.story) > at_first + 1:
            return  # it met nothing at the version that it read
        start, before = time.monotonic(), self.model.rows
        expected, _ = _outcome(lambda: self.model.run(steps))
        self.result.shares["oracle"] += time.monotonic() - start
        assert expected is None or isinstance(expected, Refused), f"the oracle broke: {expected!r}"
        assert (raised is None) == (expected is None), f"{shown}: {_first_line(raised)} came, serial execution gives {_first_line(expected)}"
        if raised is not None:
            assert self.model.rows is before
        self.check()
        for step in steps:
            self.result.steps[step.label] += 1

    def _may_conflict(self, steps: list[Step]) -> bool:
        """Only an ALTER or a RESTORE among the winners, or a RESTORE that lost, may end a transaction that repairs itself."""
        return self.altered or steps[0].kind == "restore"

    def check(self, *, first: bool = False) -> None:
        """The versions since the last check; all but the newest are parts of its making."""
        start = time.monotonic()
        self._check(first=first)
        self.result.shares["checks"] += time.monotonic() - start

    def _check(self, *, first: bool) -> None:
        new = list(versions(self.path, self.head))
        if not new and self.head is not None:  # nothing was written: then nothing was to be
            checks.rows_are(self.reader, self.head, self.world.names, self.model.rows)
        for version in new:
            before = None if self.head is None else self.model.versions.get(self.head.number)
            self.head = version
            checks.statistics_are_true(self.reader, version)
            is_head = version.number == self.world.version
            if is_head:
                self.model.at(version.number)
                checks.rows_are(self.reader, version, self.world.names, self.model.rows)
            if version.properties.get("delta.enableRowTracking") == "true":
                checks.ids_are_kept(self.reader, version, self.world.names, self.ids)
            if is_head and not first and before is not None and version.properties.get("delta.enableChangeDataFeed") == "true":
                checks.feed_is_difference(self.reader, version, self.world.names, before, self.model.rows)

    def at_the_end(self) -> None:
        """Spark and Arrow read what the oracle has, and `rowlock check` finds nothing."""
        start = time.monotonic()
        roles = list(self.model.rows.column_names)
        wanted = bag(self.model.rows, roles)
        for who, read in (("Spark", lambda: rowlock.read(self.spark, str(self.path)).toArrow()), ("to_arrow", lambda: rowlock.to_arrow(str(self.path)))):
            try:
                table = read()
            except UnsupportedFeature:
                if who == "Spark":
                    raise
                self.result.steps["to_arrow refused"] += 1
                continue
            found = bag(
                table.select([self.world.names[r] for r in roles]) if len(set(table.column_names)) == len(table.column_names) else table,
                [self.world.names[r] for r in roles],
            )
            assert found == wanted, f"{who} reads other rows: {difference(found, wanted, roles)}"
        checks.is_sound(str(self.path))
        self.result.shares["end"] += time.monotonic() - start


def _one() -> Any:
    from model.swarm.statements import Expr

    return Expr("99")


def _outcome(work: Callable[[], Any]) -> tuple[Exception | None, Any]:
    try:
        return None, work()
    except (AssertionError, StatementRefused):
        raise
    except Exception as e:
        return e, None


def _first_line(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"


@contextlib.contextmanager
def _session(spark: Any, axes: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in _SETTINGS}
    compiled = axes["generated code"] == "on"
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")
    spark.conf.set("spark.sql.session.timeZone", axes["zone"])
    spark.conf.set("spark.sql.ansi.enabled", str(axes["ansi"] == "on").lower())
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def run_case(spark: Any, seed: int, folder: Path) -> Result:
    """The case of a seed; its table is deleted unless something is wrong with it."""
    result, start = Result(seed), time.monotonic()
    case = case_of(seed)
    result.axes = case.axes
    place = folder / f"case-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    with _session(spark, case.axes), turned_down(case.axes), counted(result.paths):
        play = Play(spark, case, folder, result)
        try:
            play.run()
        except Exception as e:
            result.error = f"{type(e).__name__}: {str(e)[:3000]}"
            result.trace = traceback.format_exc()
        else:
            shutil.rmtree(place, ignore_errors=True)
        result.steps.update(play.world.reached)
    result.seconds = time.monotonic() - start
    return result
