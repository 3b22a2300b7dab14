"""CHECK constraints and invariants: what delta-spark refuses is refused, at staging and for rows that a winner's new constraint finds staged.  I3."""

from __future__ import annotations

import pytest

import rowlock
from interop.peer_tables import sql
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated, MetadataChangedException
from rowlock.transaction.state.phases import use_observer
from spark.support import Interloper, make, read, take_route, unchanged, winner

pytestmark = pytest.mark.spark

ROWS = "select id, id * 10 as v, cast(id % 2 as int) as p from range(6)"
CHECK = "ALTER TABLE T ADD CONSTRAINT positive CHECK (v >= 0)"


@pytest.fixture
def table(spark, table_path):
    """Six rows with v from 0 to 50, and the constraint v >= 0, which delta-spark added."""
    made = make(spark, table_path, spark.sql(ROWS), files=2)
    sql(spark, table_path, CHECK)
    return made


STATEMENTS = {
    "append": lambda spark, table, path: rowlock.write(spark.sql("select 9L as id, -1L as v, 0 as p"), path),
    "append of a null": lambda spark, table, path: rowlock.write(spark.sql("select 9L as id, 0 as p"), path),
    "overwrite": lambda spark, table, path: rowlock.write(spark.sql("select 9L as id, -1L as v, 0 as p"), path, mode="overwrite"),
    "update": lambda spark, table, path: table.update("id = 3", {"v": "v - 31"}),
    "update to null": lambda spark, table, path: table.update("id = 3", {"v": "null"}),
    "merge, matched": lambda spark, table, path: merge(spark, table).whenMatchedUpdate(set={"v": "-s.id"}).execute(),
    "merge, insert": lambda spark, table, path: merge(spark, table).whenNotMatchedInsert(values={"id": "s.id", "v": "-s.id"}).execute(),
    "merge, by source": lambda spark, table, path: merge(spark, table).whenNotMatchedBySourceUpdate(set={"v": "-t.id"}).execute(),
}


def merge(spark, table):
    return table.alias("t").merge(spark.range(3, 8).alias("s"), "t.id = s.id")


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_what_breaks_a_constraint_is_refused(spark, table, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    before = read(spark, table_path)
    for name, statement in STATEMENTS.items():
        with pytest.raises(ConstraintViolated, match=r"positive \(v >= 0\)") as refused:
            statement(spark, table, table_path)
        assert (refused.value.constraint, refused.value.expression) == ("positive", "v >= 0"), name
        assert refused.value.row is not None and (refused.value.row["v"] is None or refused.value.row["v"] < 0), name
        assert read(spark, table_path) == before, name


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short(ci=("large",), why="what breaks it stays, with the rows that do not beside it; rows that meet one are written in test_definitions")
def test_rows_that_meet_it_are_written(spark, table, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table.update("id >= 3", {"v": "v + 1"})
    merge(spark, table).whenMatchedUpdate(set={"v": "t.v + 1"}).whenNotMatchedInsert(values={"id": "s.id", "v": "0"}).execute()
    rowlock.write(spark.sql("select id + 20 as id, id as v, 1 as p from range(5)"), table_path)
    table.delete("id = 0")
    assert len(read(spark, table_path)) == 12


@pytest.mark.soak("the moment of a statement is in test_semantics", ci=True)
def test_the_time_of_a_constraint_is_the_time_of_the_write(spark, table, table_path):
    """`now` is not fixed when the constraint is resolved, but when rows are judged."""
    sql(spark, table_path, "ALTER TABLE T ADD CONSTRAINT past CHECK (v < unix_millis(current_timestamp()))")
    table.update("id = 1", {"v": "unix_millis(current_timestamp()) - 1"})
    table.update("id = 2", {"v": "unix_millis(current_timestamp()) - 1"})
    with pytest.raises(ConstraintViolated, match="past"):
        table.update("id = 2", {"v": "unix_millis(current_timestamp()) + 100000"})


def test_an_invariant_of_a_column(spark, table_path):
    from pyspark.sql.types import LongType, StructField, StructType

    invariant = {"delta.invariants": '{"expression":{"expression":"v < 100"}}'}
    schema = StructType([StructField("id", LongType()), StructField("v", LongType(), True, invariant)])
    table = DeltaTable.create(spark).location(table_path).addColumns(schema).execute()
    rowlock.write(spark.sql("select 1L as id, 5L as v"), table_path)
    sql(spark, table_path, "INSERT INTO T VALUES (2, 7)")
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="v < 100"):
        rowlock.write(spark.sql("select 1L as id, 500L as v"), table_path)
    with pytest.raises(ConstraintViolated, match="v < 100"):
        table.update("id = 2", {"v": "v * 100"})


@pytest.mark.soak("delta-spark enforces the same constraint; those of a table that is altered stay above", ci=True)
def test_a_new_table_with_constraints_is_what_delta_spark_makes(spark, table_path):
    rowlock.write(spark.sql(ROWS), table_path, properties={"delta.constraints.small": "v < 1000"})
    with pytest.raises(Exception, match="CHECK constraint small"):
        sql(spark, table_path, "INSERT INTO T VALUES (9, 5000, 1)")
    with pytest.raises(ConstraintViolated, match="small"):
        rowlock.write(spark.sql("select 9L as id, 5000L as v"), table_path)


@pytest.mark.parametrize(("route", "winners"), [("driver", "delta-spark"), ("large", "ours")])
@pytest.mark.short("large-ours", why="the constraint of another engine: tests/interop/test_definition_changes")
def test_a_constraint_that_a_winner_added_is_asked_of_staged_rows(spark, table_path, monkeypatch, route, winners):
    take_route(monkeypatch, route)
    table = make(spark, table_path, spark.sql(ROWS), files=2)
    other, before = DeltaTable.forPath(spark, table_path), read(spark, table_path)
    added = (lambda: sql(spark, table_path, CHECK)) if winners == "delta-spark" else (lambda: other.addConstraint("positive", "v >= 0"))
    for name, statement in STATEMENTS.items():
        with winner(added), pytest.raises(ConstraintViolated, match="positive"):
            statement(spark, table, table_path)
        assert read(spark, table_path) == before, name
        other.dropConstraint("positive")


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.soak("20 s; the test before this one asks the same constraint of the same rows")
def test_staged_rows_that_meet_it_are_kept(spark, table_path, monkeypatch, route):
    """No statement is staged a second time: the first rebase is the only one."""
    take_route(monkeypatch, route)
    table = make(spark, table_path, spark.sql(ROWS), files=2)
    bound = iter(range(100, 1000, 100))

    def another() -> None:
        sql(spark, table_path, f"ALTER TABLE T ADD CONSTRAINT c{(n := next(bound))} CHECK (v > -{n})")

    with winner(another):
        rowlock.write(spark.sql("select id + 10 as id, id as v, 0 as p from range(5)"), table_path)
    for run in (
        lambda: table.update("id = 3", {"v": "v + 1"}),
        lambda: merge(spark, table).whenMatchedUpdate(set={"v": "t.v + 1"}).whenNotMatchedInsert(values={"id": "s.id", "v": "0"}).execute(),
        lambda: table.delete("id = 0"),
        lambda: table.optimize().executeCompaction(),
    ):
        with winner(another):
            run()
        assert (table.lastReceipt.attempts, table.lastReceipt.rounds) == (1, 1)
    assert (3, 32, 1) in read(spark, table_path)


def test_images_between_two_statements_are_not_guessed_at(spark, table_path):
    """A constraint that only the first statement's rows might break: the run after it would have raised, so the transaction does not commit."""
    table = make(spark, table_path, spark.sql(ROWS))
    with pytest.raises(MetadataChangedException, match="positive"), table.transaction() as txn:
        txn.update("id = 3", {"v": "-1"})
        txn.update("id = 3", {"v": "1"})
        sql(spark, table_path, CHECK)
    with use_observer(Interloper()), pytest.raises(ConstraintViolated), table.transaction() as txn:
        txn.update("id = 3", {"v": "-1"})
