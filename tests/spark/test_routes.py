"""Whichever way the rows take (the driver, one scan, native writes), a statement means what it means in delta-spark, alone and after a rebase (I3, I5)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import delta.tables
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import MultipleMatches
from spark.support import ROUTES, delta_rows, make, read, take_route, version, winner

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, g int, v int, s string, p string"


@dataclass(frozen=True)
class Statement:
    """A statement in plain values, which any engine with delta.tables' surface can run."""

    kind: str
    condition: str | None = None
    set: dict[str, str] = field(default_factory=dict)
    rows: tuple[tuple[Any, ...], ...] = ()
    clauses: tuple[tuple[Any, ...], ...] = ()


def run(face: Any, spark: Any, path: str, statement: Statement) -> None:
    """Raises MultipleMatches for either engine's refusal of a second match."""
    table = face.forPath(spark, path)
    if statement.kind == "update":
        table.update(statement.condition, statement.set)
    elif statement.kind == "delete":
        table.delete(statement.condition)
    elif statement.kind == "optimize":
        table.optimize().executeCompaction()
    elif statement.kind in ("append", "overwrite"):
        frame = spark.createDataFrame(list(statement.rows), SCHEMA)
        if face is DeltaTable:
            rowlock.write(frame, path, mode=statement.kind)
        else:
            frame.write.format("delta").mode(statement.kind).save(path)
    else:
        source = spark.createDataFrame(list(statement.rows), SCHEMA)
        merge = table.alias("t").merge(source.alias("s"), statement.condition)
        for name, *arguments in statement.clauses:
            merge = getattr(merge, name)(*arguments)
        try:
            merge.execute()
        except Exception as e:
            if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in str(e):
                raise MultipleMatches("two matches") from e
            raise


class Maker:
    """Random statements, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def row(self, low: int = 0, high: int = 60) -> tuple[Any, ...]:
        r = self.random
        return (
            r.choice([None, *[r.randrange(low, high)] * 12]),
            r.choice([None, 0, 1, 2]),
            r.choice([None, r.randrange(20)]),
            r.choice([None, "a", "b'c", "ä"]),
            r.choice(["x", "y z", None]),
        )

    def rows(self, count: int) -> tuple[tuple[Any, ...], ...]:
        return tuple(self.row() for _ in range(count))

    def condition(self, t: str = "") -> str | None:
        r = self.random
        return r.choice(
            [None, f"{t}id % 3 = {r.randrange(3)}", f"{t}g = {r.randrange(3)}", f"{t}g is null", f"{t}v > {r.randrange(20)}", f"{t}s like 'a%' or {t}p = 'y z'", f"not ({t}v < 10)", f"{t}id = {r.randrange(40)}",
             f"{t}p is null and {t}id > 10"]
        )  # fmt: skip

    def assigned(self) -> dict[str, str]:
        return self.random.choice(
            [
                {"v": "v + 1"},
                {"g": "null", "s": "concat(s, '!')"},
                {"p": "case when id % 2 = 0 then 'x' else 'new/p' end"},
                {"v": "cast(id as int)", "id": "id + 1"},
            ]
        )

    def merge(self) -> Statement:
        r = self.random
        distinct = {row[0]: row for row in self.rows(r.choice([2, 15, 30]))}
        rows = [*distinct.values(), *(self.rows(1) if r.random() < 0.15 else ())]
        on = r.choice(
            [
                "t.id = s.id",
                "t.id = s.id",
                "t.id = s.id and t.g = 1",
                "t.id = s.id and s.v > 3",
                "t.id <=> s.id",
                "t.id = s.id + 1 and t.p = 'x'",
                "t.id > s.id + 57",
                "t.p = s.p and t.id = s.id",
            ]
        )
        clauses: list[tuple[Any, ...]] = []
        matched = [
            ("whenMatchedUpdate", "s.v > 10 and (t.v is null or t.v < 15)", {"v": "s.v + coalesce(t.v, 0)"}),
            ("whenMatchedDelete", "t.g = s.g"),
            ("whenMatchedUpdateAll", "s.s is not null"),
        ]
        last = [("whenMatchedUpdate", None, {"s": "concat(coalesce(t.s, ''), s.s)", "p": "s.p"}), ("whenMatchedDelete",), ("whenMatchedUpdateAll",)]
        clauses += r.sample(matched, r.randrange(3)) + r.sample(last, r.randrange(2))
        inserts = (
            [("whenNotMatchedInsert", "s.g = 1", {"id": "s.id", "p": "'in'"})],
            [("whenNotMatchedInsertAll",)],
            [("whenNotMatchedInsert", "s.v > 5", {"id": "s.id + 1", "v": "s.v"}), ("whenNotMatchedInsertAll",)],
            [],
        )
        clauses += r.choice(inserts)
        if r.random() < 0.5:
            clauses += r.choice(
                [
                    [("whenNotMatchedBySourceUpdate", "t.v < 5", {"v": "t.v + 100"}), ("whenNotMatchedBySourceDelete", "t.g = 2")],
                    [("whenNotMatchedBySourceUpdate", None, {"g": "7"})],
                ]
            )
        return Statement("merge", on, rows=tuple(rows), clauses=tuple(clauses or [("whenMatchedUpdateAll",)]))

    def statement(self) -> Statement:
        kind = self.random.choice(["update", "delete", "merge", "merge", "merge", "append", "optimize"])
        if kind == "merge":
            return self.merge()
        condition = self.condition()
        if kind == "delete" and condition is None:
            condition = "id % 5 = 1"
        return Statement(kind, condition, self.assigned() if kind == "update" else {}, self.rows(12) if kind == "append" else ())


def outcome(face: Any, spark: Any, path: str, statement: Statement) -> str:
    try:
        run(face, spark, path, statement)
    except MultipleMatches:
        return "two matches"
    return "done"


LAYOUTS = {
    "vectors": {"seed": 11, "partition_by": [], "vectors": "true"},
    "copy on write": {"seed": 22, "partition_by": [], "vectors": "false"},
    "partitions": {"seed": 33, "partition_by": ["p"], "vectors": "true"},
    "partitions, copy on write": {"seed": 46, "partition_by": ["p", "g"], "vectors": "false"},
}
LENGTH = 5


@pytest.fixture(scope="module")
def expected(spark, tmp_path_factory):
    """By layout: the statements, and what delta-spark made of a table by each."""
    made: dict[str, list[tuple[Statement, str, list[Any]]]] = {}

    def of(layout: str) -> list[tuple[Statement, str, list[Any]]]:
        if layout not in made:
            maker, path, steps = Maker(LAYOUTS[layout]["seed"]), str(tmp_path_factory.mktemp("twin") / "table"), []
            start = spark.createDataFrame(list(maker.rows(40)), SCHEMA).coalesce(1)
            start.write.format("delta").partitionBy(*LAYOUTS[layout]["partition_by"]).save(path)
            steps.append((Statement("append", rows=tuple(tuple(r) for r in start.collect())), "done", []))
            for _ in range(LENGTH):
                statement = maker.statement()
                steps.append((statement, outcome(delta.tables.DeltaTable, spark, path, statement), delta_rows(spark, path)))
            made[layout] = steps
        return made[layout]

    return of


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.short(
    ci=("partitions-large",),
    why="half a minute each; the layout and the way that differ most from those of the swarm; statements drawn at random are in test_swarm and test_recorded, too",
)
def test_random_statements_by_every_route(spark, table_path, monkeypatch, expected, layout, route):
    steps = expected(layout)
    take_route(monkeypatch, route)
    how = LAYOUTS[layout]
    make(spark, table_path, list(steps[0][0].rows), SCHEMA, files=3, partition_by=how["partition_by"], **{"delta.enableDeletionVectors": how["vectors"]})
    for number, (statement, told, rows) in enumerate(steps[1:]):
        assert outcome(DeltaTable, spark, table_path, statement) == told, (number, statement)
        assert read(spark, table_path) == rows, (number, statement)
    assert delta_rows(spark, table_path) == steps[-1][2]


# ---- a winner that changes everything, between staging and commit --------------------------------

START = tuple((n, n % 3, n, f"s{n}", "xy"[n % 2]) for n in range(30))
NEW = tuple((n, 1, n * 10 + 1, "new", "x") for n in range(5, 20))
WINNERS = {
    "updates all": Statement("update", None, {"v": "v + 1", "g": "(g + 1) % 3"}),
    "rewrites all in place": Statement("optimize"),
    "overwrites": Statement("overwrite", rows=NEW),
    "deletes and inserts": Statement(
        "merge",
        "t.id = s.id + 20",
        rows=NEW,
        clauses=(("whenMatchedDelete",), ("whenNotMatchedInsertAll",), ("whenNotMatchedBySourceUpdate", "t.id < 6", {"v": "-1"})),
    ),
}
LOSERS = {
    "update": Statement("update", "g = 1 and v % 2 = 1", {"v": "v * 1000", "s": "upper(s)"}),
    "delete": Statement("delete", "g = 2 or v > 20"),
    "merge": Statement(
        "merge", "t.id = s.id and t.g != 2", rows=tuple((n, 0, 1, "m", "y") for n in range(10, 40, 2)),
        clauses=(("whenMatchedDelete", "t.v % 5 = 0"), ("whenMatchedUpdate", None, {"v": "t.v + s.v + 5000"}), ("whenNotMatchedInsertAll", "s.id % 3 != 0"), ("whenNotMatchedBySourceUpdate", "t.v > 25", {"s": "'old'"})),
    ),
    "append": Statement("append", rows=NEW[:4]),
    "overwrite": Statement("overwrite", rows=NEW[3:9]),
    "optimize": Statement("optimize"),
}  # fmt: skip


@pytest.fixture(scope="module")
def serial(spark, tmp_path_factory):
    """What delta-spark makes of the winner and then the loser."""
    after: dict[str, list[Any]] = {}
    both: dict[tuple[str, str], list[Any]] = {}

    def start(rows: Any) -> str:
        path = str(tmp_path_factory.mktemp("serial") / "table")
        spark.createDataFrame(list(rows), SCHEMA).coalesce(1).write.format("delta").save(path)
        return path

    def of(loser: str, won: str) -> list[Any]:
        if won not in after:
            path = start(START)
            run(delta.tables.DeltaTable, spark, path, WINNERS[won])
            after[won] = delta_rows(spark, path)
        if (loser, won) not in both:
            if loser == "overwrite":
                both[loser, won] = sorted(LOSERS[loser].rows, key=repr)
            elif loser in ("append", "optimize"):
                both[loser, won] = sorted([*after[won], *LOSERS[loser].rows], key=repr)
            else:
                path = start(after[won])
                run(delta.tables.DeltaTable, spark, path, LOSERS[loser])
                both[loser, won] = delta_rows(spark, path)
        return both[loser, won]

    return of


@pytest.mark.no_peers("the other tests of this module leave tables of the same kinds")
@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("won", WINNERS)
@pytest.mark.parametrize("loser", LOSERS)
@pytest.mark.short(
    "merge-deletes and inserts-driver",
    "append-overwrites-large",
    "optimize-rewrites all in place-large",
    ci=(
        "delete-overwrites-driver",
        "overwrite-deletes and inserts-driver",
    ),
    why="a loser of each kind instead of the product; all pairs run in memory (the schedules and the matrix)",
)
def test_a_winner_that_changes_the_whole_table(spark, table_path, monkeypatch, serial, loser, won, route):
    expected = serial(loser, won)
    take_route(monkeypatch, route)
    make(spark, table_path, START, SCHEMA, files=3)
    before = version(table_path)
    with winner(lambda: run(DeltaTable, spark, table_path, WINNERS[won])):
        run(DeltaTable, spark, table_path, LOSERS[loser])
    assert read(spark, table_path) == expected
    kept_nothing = loser == "optimize" and won != "deletes and inserts"
    assert version(table_path) - before in ((1, 2) if kept_nothing else (2,))


TWO_WINNERS = (WINNERS["updates all"], Statement("update", "id % 4 = 1", {"p": "'z'", "v": "v + 2"}))


@pytest.fixture(scope="module")
def after_two(spark, tmp_path_factory):
    """What delta-spark makes of two winners and then the loser."""
    made: dict[str, list[Any]] = {}

    def of(loser: str) -> list[Any]:
        if loser not in made:
            path = str(tmp_path_factory.mktemp("two") / "table")
            spark.createDataFrame(list(START), SCHEMA).coalesce(1).write.format("delta").partitionBy("p").save(path)
            for statement in [*TWO_WINNERS, LOSERS[loser]]:
                run(delta.tables.DeltaTable, spark, path, statement)
            made[loser] = delta_rows(spark, path)
        return made[loser]

    return of


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("loser", ["update", "delete", "merge"])
@pytest.mark.short(ci=("merge-true-large",), why="20 s each; several rounds on Spark are in the schedules (several_lost_rounds), and in test_rebase_on_spark")
def test_several_lost_rounds(spark, table_path, monkeypatch, after_two, loser, vectors, route):
    """Two winners in two rounds; with partitions, with and without deletion vectors."""
    expected = after_two(loser)
    take_route(monkeypatch, route)
    make(spark, table_path, START, SCHEMA, files=2, partition_by=["p"], **{"delta.enableDeletionVectors": vectors})
    table = DeltaTable.forPath(spark, table_path)
    with winner(*[lambda s=s: run(DeltaTable, spark, table_path, s) for s in TWO_WINNERS]):
        run(DeltaTable, spark, table_path, LOSERS[loser])
    assert read(spark, table_path) == delta_rows(spark, table_path) == expected
    record = table.history(1).first()
    assert record.operation == LOSERS[loser].kind.upper()


@pytest.mark.parametrize("route", ["driver", "large"])
def test_a_rebase_raises_what_the_serial_run_raises(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    make(spark, table_path, START, SCHEMA, files=2)
    merge = Statement(
        "merge",
        "t.v = s.v",
        rows=((100, 0, 77, "a", "x"), (101, 0, 78, "b", "x")),
        clauses=(("whenMatchedUpdate", "false", {"s": "s.s"}), ("whenNotMatchedInsertAll",)),
    )
    twice = Statement("append", rows=((500, 0, 77, "w", "x"), (501, 0, 78, "w", "x")))
    with winner(lambda: run(DeltaTable, spark, table_path, twice)):
        run(DeltaTable, spark, table_path, merge)
    assert len(read(spark, table_path)) == len(START) + 2  # each source row has its match by now: no insert
    doubled = Statement(
        "merge",
        "t.g = s.g",
        rows=((1, 9, 0, "a", "x"), (2, 9, 0, "b", "x")),
        clauses=(("whenMatchedUpdate", "false", {"s": "s.s"}), ("whenNotMatchedInsertAll",)),
    )
    nine = Statement("append", rows=((600, 9, 0, "w", "x"),))
    before = version(table_path)
    with pytest.raises(MultipleMatches), winner(lambda: run(DeltaTable, spark, table_path, nine)):
        run(DeltaTable, spark, table_path, doubled)
    assert version(table_path) == before + 1
