"""A rebase reads what the winners brought and never the table: the files that are read when a commit is lost are counted, and so are Spark's jobs (I3)."""

from __future__ import annotations

from typing import Any

import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.read import stored_origin
from rowlock.engines.spark.read.scan import Scanner
from rowlock.exceptions import MultipleMatches
from rowlock.parquet import moving
from rowlock.parquet.rows import Rows
from rowlock.storage.open import open_store
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.shared import state_of
from spark.support import data_files, delta_rows, make, read, set_limits, unchanged

pytestmark = pytest.mark.spark


class Reads:
    """The data files that are opened: by Arrow, where each column of a file counts as one, or by Spark, which takes the columns that it needs."""

    def __init__(self, monkeypatch: Any) -> None:
        self.opened: list[tuple[str, str]] = []
        by_arrow, by_spark, to_move = Rows._read, Scanner._read, moving.open_parquet

        def opened(store: Any, key: str, size_bytes: int | None = None) -> Any:
            self.opened.append((key, "to move its rows"))
            return to_move(store, key, size_bytes)

        def arrow(rows: Any, file: Any, snapshot: Any, wanted: Any, positions: Any) -> Any:
            self.opened += [(file.path, column) for column in wanted.names]
            return by_arrow(rows, file, snapshot, wanted, positions)

        def scan(scanner: Any, snapshot: Any, schema: Any, files: Any, *more: Any, **options: Any) -> Any:
            self.opened += [(file.path, "in Spark") for file in files]
            return by_spark(scanner, snapshot, schema, files, *more, **options)

        monkeypatch.setattr(moving, "open_parquet", opened)
        monkeypatch.setattr(Rows, "_read", arrow)
        monkeypatch.setattr(Scanner, "_read", scan)


class Account(Observer):
    """Runs the winner when a transaction has staged, and notes files and jobs of everything after that."""

    def __init__(self, spark: Any, path: str, reads: Reads, work: Any) -> None:
        self.spark, self.path, self.reads, self.work, self.busy = spark, path, reads, work, False
        self.brought: set[str] = set()
        self.staged: set[str] = set()
        self.read: set[str] = set()
        self.twice: list[tuple[str, str]] = []
        self.jobs = 0

    def phase(self, name: str, txn: Any) -> None:
        if self.busy:
            return
        if name == "staged":
            self.staged = {path for path, _ in self.reads.opened}
            self.busy = True
            before = live(self.path)
            self.work()
            self.busy = False
            self.brought = live(self.path) - before
            txn.table.engine.evaluator.rows.cache.clear()  # as if another process had won
            self.reads.opened.clear()
            self.jobs = -jobs(self.spark)
        elif name == "before_put":
            self.read = {path for path, _ in self.reads.opened}
            self.twice = [x for n, x in enumerate(self.reads.opened) if x in self.reads.opened[:n]]
            self.jobs += jobs(self.spark)


def jobs(spark: Any) -> int:
    """How many jobs the session's context has run."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def live(path: str) -> set[str]:
    return {f.path for f in state_of(open_store(path)).refresh().files.adds()}


@pytest.fixture
def contest(spark, table_path, monkeypatch):
    """Runs a statement, and a winner inside it, on a table of 6 files; gives the account."""
    set_limits(monkeypatch, small=100_000, local=100)
    make(spark, table_path, spark.range(1200).selectExpr("id", "id % 7 g", "id v"))
    for start in range(1200, 7200, 1200):
        rowlock.write(spark.range(start, start + 1200).selectExpr("id", "id % 7 g", "id v"), table_path)
    reads = Reads(monkeypatch)

    def run(statement: Any, work: Any) -> Account:
        other, table = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
        account = Account(spark, table_path, reads, lambda: work(other))
        with use_observer(account):
            statement(table)
        assert table.lastReceipt.rounds >= 1
        assert len(account.staged) >= 6, "the statement itself was to read the whole table"
        assert account.read <= account.brought, "files were read that no winner brought"
        assert account.twice == [], "the same was read twice"
        return account

    return run


def append(spark, table):
    rowlock.write(spark.range(50000, 50040).selectExpr("id", "id % 7 g", "id v").coalesce(1), table._handle.path)


WINNERS = {
    "append": lambda spark, t: append(spark, t),
    "update of the same rows": lambda spark, t: t.update("g = 3 and id % 11 = 0", {"v": "v + 1"}),
    "delete of the same rows": lambda spark, t: t.delete("g = 3 and id % 5 = 0"),
    "merge": lambda spark, t: (
        t.merge(spark.range(30, 60).selectExpr("id as k"), "id = k + 7000")
        .whenMatchedUpdate(set={"g": "3"})
        .whenNotMatchedInsert(values={"id": "k + 7000", "g": "3", "v": "0"})
        .execute()
    ),
}


@pytest.mark.parametrize("won", WINNERS)
@pytest.mark.parametrize("kind", ["update", "delete"])
@pytest.mark.short(
    "update-update of the same rows",
    "delete-merge",
    ci=(
        "update-append",
        "delete-delete of the same rows",
    ),
    why="the product; each statement and two winners stay",
)
def test_a_repair_of_update_and_delete_runs_no_job(spark, table_path, contest, kind, won):
    def statement(table):
        table.update("g = 3", {"v": "v * 2"}) if kind == "update" else table.delete("g = 3")

    account = contest(statement, lambda other: WINNERS[won](spark, other))
    assert account.jobs == 0
    assert won == "delete of the same rows" or account.read == account.brought
    assert won != "delete of the same rows" or account.read == set()
    if kind == "delete":
        assert not [r for r in read(spark, table_path) if r[1] == 3]


@pytest.mark.parametrize("won", WINNERS)
@pytest.mark.parametrize("keys", ["met", "not met"])
@pytest.mark.short(
    "met-update of the same rows",
    "not met-append",
    ci=(
        "met-merge",
        "not met-delete of the same rows",
    ),
    why="the product; each side and two winners stay",
)
def test_a_repair_of_a_merge_runs_at_most_two_jobs(spark, table_path, contest, won, keys):
    source = spark.range(3, 60000 if keys == "met" else 7000, 70).selectExpr("id as k", "id * 3 as n")

    def statement(table):
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.k and t.g = 3").whenMatchedUpdate(set={"v": "t.v + s.n"})
        merge.whenNotMatchedInsert(values={"id": "s.k", "g": "-1", "v": "s.n"}).execute()

    account = contest(statement, lambda other: WINNERS[won](spark, other))
    assert account.jobs <= 2
    counted = {r[0]: 0 for r in delta_rows(spark, table_path)}
    assert len(counted) > 6000


def test_a_repair_by_source_reads_only_what_is_new(spark, table_path, contest):
    source = spark.range(0, 7000, 3).selectExpr("id as k")
    account = contest(
        lambda t: t.merge(source, "id = k").whenMatchedDelete("v % 2 = 0").whenNotMatchedBySourceUpdate("g = 4", {"v": "-1"}).execute(),
        lambda other: WINNERS["update of the same rows"](spark, other),
    )
    assert account.jobs <= 2
    assert {r[2] for r in read(spark, table_path) if r[1] == 4 and r[0] % 3} == {-1}


def test_a_winner_that_moves_everything_is_followed_and_not_read(spark, table_path, contest):
    account = contest(lambda t: t.update("g = 3", {"v": "v * 2"}), lambda other: other.optimize().executeCompaction())
    assert account.brought and account.read == set() and account.jobs == 0
    assert sorted(r[2] for r in read(spark, table_path) if r[1] == 3) == sorted(2 * n for n in range(7200) if n % 7 == 3)


def test_appends_and_compactions_read_nothing(spark, table_path, contest):
    rows_before = len(read(spark, table_path))
    account = contest(lambda t: t.optimize().executeCompaction(), lambda other: append(spark, other))
    assert account.read == set()
    assert account.jobs == 0
    assert len(read(spark, table_path)) == rows_before + 40


def test_a_large_merge_reads_everything_once_and_no_origin_comes_to_the_driver(spark, table_path, monkeypatch):
    """The target and the pinned source are in one scan each; addresses are read once, to sum them up by file, and numbers of source rows never."""
    set_limits(monkeypatch, small=100, local=0)
    make(spark, table_path, spark.range(3000).selectExpr("id", "id % 7 g", "id v"), files=3)
    DeltaTable.forPath(spark, table_path).delete("id % 4 = 1")
    reads, columns = Reads(monkeypatch), list[tuple[str, str]]()
    batches = stored_origin._batches

    def noted(file: Any, store: Any, names: list[str]) -> Any:
        columns.extend((file.path, n) for n in names)
        return batches(file, store, names)

    monkeypatch.setattr(stored_origin, "_batches", noted)
    table = DeltaTable.forPath(spark, table_path)
    merge = table.alias("t").merge(spark.range(1500, 4500).selectExpr("id", "1 as d").alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate("t.g < 5", {"v": "t.v + s.d"}).whenMatchedDelete("t.g = 5").whenNotMatchedInsert(values={"id": "s.id", "v": "-1"}).execute()
    before = {p for p, _ in reads.opened}
    assert len(reads.opened) == len(before) == 3
    assert len(columns) == len(set(columns))
    assert not [n for _, n in columns if n == stored_origin.SOURCE_ROW]
    alive = [i for i in range(3000) if i % 4 != 1]
    wanted = [(i, i % 7, i + (i >= 1500 and i % 7 < 5)) for i in alive if i < 1500 or i % 7 != 5]
    wanted += [(i, None, -1) for i in range(1500, 4500) if i not in set(alive)]
    assert read(spark, table_path) == sorted(wanted, key=repr)
    assert len(data_files(table_path)) == 3 + len(live(table_path) - before), "files that nobody needs any more are left"


@pytest.mark.soak("second matches are refused by each way in test_refusals", ci=True)
def test_a_second_match_is_refused_in_a_large_merge_and_leaves_no_file(spark, table_path, monkeypatch):
    set_limits(monkeypatch, small=100, local=0)
    make(spark, table_path, spark.range(0, 3000).selectExpr("id", "id % 7 g", "id v"))
    merge = DeltaTable.forPath(spark, table_path).alias("t").merge(spark.range(3000).selectExpr("id div 2 + 10 as id").alias("s"), "t.id = s.id")
    with unchanged(table_path), pytest.raises(MultipleMatches):
        merge.whenMatchedUpdate(set={"v": "0"}).whenNotMatchedInsert(values={"id": "s.id"}).execute()
