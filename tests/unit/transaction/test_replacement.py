"""overwriteSchema and REPLACE TABLE with rows: these are written after the wait for a lease, again only where the definition changed, and nothing of them is left without a commit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

import rowlock
from rowlock.engines.appends.engine import ArrowEngine, stage_rows
from rowlock.exceptions import ConcurrentDeleteReadException, CorruptLog, DeltaConcurrentModificationException, SchemaMismatch, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_values import identity_metadata
from rowlock.protocol.schema import ArrayType, PrimitiveType, StructField, StructType, schema_json
from rowlock.storage import LocalStore
from rowlock.transaction.definition import alteration, creation
from rowlock.transaction.definition.replacement import overwrite_schema, replace_table
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState, state_of


class Rows:
    """One column with one row, and how often it was written."""

    def __init__(self, path: Path, column: str, read: Sequence[int] = ()) -> None:
        self.path, self.column, self.read = path, column, read
        self.schema = StructType((StructField(column, PrimitiveType("long")),))
        self.written = 0
        self.writing: Callable[[], object] = lambda: None

    @property
    def state(self) -> SharedState:
        return state_of(LocalStore(self.path))

    def write(self, draft: Snapshot, head: Snapshot) -> tuple[Sequence[AddFile], Sequence[int]]:
        self.writing()
        self.written += 1
        rows = pa.table({self.column: [1]})
        return stage_rows(self.state.store, draft, [rows], lambda t: t, None), self.read

    def overwrite(self) -> Receipt:
        return overwrite_schema(self.state, self.schema, (), self.write)

    def replace(self) -> Receipt:
        return replace_table(self.state, creation.new_metadata(schema_json(self.schema), (), {}), write=self.write, properties={})


WAYS: list[Callable[[Rows], Receipt]] = [Rows.overwrite, Rows.replace]
both = pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)


class Once(Observer):
    """Others' work, once, when the rows are staged."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: list[Callable[[], object]] = [work]

    def phase(self, name: str, txn: object) -> None:
        if name == "staged" and self.work:
            self.work.pop()()


def table(path: Path, **properties: str) -> str:
    rowlock.append(str(path), pa.table({"id": [1, 2]}), properties=properties)
    return str(path)


def unnamed(path: Path) -> set[str]:
    """The data files in the table's folder that no version names."""
    named = {f.path for v in range(rowlock_version(path) + 1) for f in state_of(LocalStore(path)).log.at(v).files.adds()}
    return {str(p.relative_to(path)) for p in path.rglob("*.parquet") if "_delta_log" not in p.parts} - named


def rowlock_version(path: Path) -> int:
    return state_of(LocalStore(path)).refresh().version


@both
def test_rows_are_written_once_where_others_change_no_definition(tmp_path: Path, way: Callable[[Rows], Receipt]) -> None:
    path, rows = table(tmp_path, **{"delta.columnMapping.mode": "name"}), Rows(tmp_path, "k")
    with use_observer(Once(lambda: rowlock.append(path, pa.table({"id": [3]})))):
        assert way(rows).rounds == 1
    assert rows.written == 1 and rowlock.to_arrow(path).to_pydict() == {"k": [1]} and not unnamed(tmp_path)


@pytest.mark.parametrize(("mode", "times"), [("none", 1), ("name", 2)])
def test_rows_are_written_again_where_their_definition_became_another(tmp_path: Path, mode: str, times: int) -> None:
    """Names of columns in files are the table's own only under column mapping; without it another's columns change nothing in ours."""
    path, ours, theirs = table(tmp_path, **{"delta.columnMapping.mode": mode}), Rows(tmp_path, "k"), Rows(tmp_path, "other")
    with use_observer(Once(theirs.overwrite)):
        ours.overwrite()
    assert (ours.written, theirs.written) == (times, 1)
    assert rowlock.to_arrow(path).to_pydict() == {"k": [1]} and rowlock.to_arrow(path, version=1).to_pydict() == {"other": [1]}
    assert not unnamed(tmp_path)


@pytest.mark.parametrize("lock", ["table", "writes"])
@pytest.mark.parametrize("mode", ["none", "name"])
def test_two_writers_of_other_columns_wait_for_each_other_before_they_write(tmp_path: Path, mode: str, lock: str) -> None:
    path = table(tmp_path, **{"delta.columnMapping.mode": mode, "rowlock.lock": lock})
    writers, inside, most = [Rows(tmp_path, name) for name in ("a", "b")], 0, 0
    started = threading.Barrier(2)

    def writing() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.1)
        inside -= 1

    def work(rows: Rows) -> None:
        rows.writing = writing
        started.wait()
        rows.overwrite()

    threads = [threading.Thread(target=work, args=(w,)) for w in writers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert most == 1 and [w.written for w in writers] == [1, 1]
    assert {tuple(rowlock.to_arrow(path, version=v).column_names) for v in (1, 2)} == {("a",), ("b",)}
    assert not unnamed(tmp_path)


@both
def test_rows_of_a_commit_that_is_not_made_are_deleted(tmp_path: Path, way: Callable[[Rows], Receipt]) -> None:
    path, rows = table(tmp_path, **{"rowlock.onConflict": "fail"}), Rows(tmp_path, "k")
    with use_observer(Once(lambda: rowlock.append(path, pa.table({"id": [3]})))), pytest.raises(DeltaConcurrentModificationException):
        way(rows)
    assert rows.written == 1 and not unnamed(tmp_path)


@both
def test_rows_that_were_read_from_a_version_that_is_not_replaced_are_deleted(tmp_path: Path, way: Callable[[Rows], Receipt]) -> None:
    path, rows = table(tmp_path), Rows(tmp_path, "k", read=(0,))
    with use_observer(Once(lambda: rowlock.append(path, pa.table({"id": [3]})))), pytest.raises(ConcurrentDeleteReadException, match="version 0"):
        way(rows)
    assert not unnamed(tmp_path) and rowlock.to_arrow(path).num_rows == 3


@both
def test_rows_of_a_commit_that_stands_in_another_tables_log_are_kept(tmp_path: Path, way: Callable[[Rows], Receipt], monkeypatch: pytest.MonkeyPatch) -> None:
    """I10: the table is dropped and made again just before the put, which wins there; the error says so, and what the commit names is there."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    table(ours)
    table(theirs)
    rows, put = Rows(ours, "k"), LocalStore.put_if_absent
    (commit,) = sorted((theirs / "_delta_log").glob("*.json"))[-1:]

    def made_again_first(store: LocalStore, key: str, data: bytes) -> bool:
        if key.endswith(f"{int(commit.stem) + 1:020d}.json"):
            for file in (theirs / "_delta_log").glob("*.json"):
                (ours / "_delta_log" / file.name).write_bytes(file.read_bytes())
        return put(store, key, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", made_again_first)
    with pytest.raises(CorruptLog, match="another table"):
        way(rows)
    actions = [json.loads(line) for line in (ours / "_delta_log" / f"{int(commit.stem) + 1:020d}.json").read_text().splitlines()]
    assert all((ours / action["add"]["path"]).exists() for action in actions if "add" in action)
    assert any("add" in action for action in actions)


def test_the_manifests_of_a_partitioning_that_is_replaced_go(tmp_path: Path) -> None:
    """They named files that were removed, so that an engine which reads plain Parquet files by them saw every row twice."""
    made = {"delta.compatibility.symlinkFormatManifest.enabled": "true", "delta.enableDeletionVectors": "false"}
    rowlock.append(str(tmp_path), pa.table({"id": [1, 2], "day": [1, 2]}), properties=made, partition_by=["day"])
    folder = tmp_path / "_symlink_format_manifest"
    assert {f.parent.name for f in folder.rglob("manifest")} == {"day=1", "day=2"}
    Rows(tmp_path, "id").overwrite()
    assert [f.relative_to(folder).as_posix() for f in folder.rglob("manifest")] == ["manifest"]


def test_who_reads_a_new_table_before_its_creator_goes_on_reads_on(tmp_path: Path) -> None:
    """The creator forgot what its process had read, so that a transaction begun meanwhile was told that the log was rewritten (`dynamodb` 640,256)."""
    state, read = Rows(tmp_path, "id").state, list[Snapshot]()

    class Reader(Observer):
        def phase(self, name: str, txn: object) -> None:
            if name == "committed":
                read.append(state.refresh())

    with use_observer(Reader()):
        creation.create(state, schema_json(Rows(tmp_path, "id").schema))
    assert [snapshot.chain for snapshot in read] == [state.refresh().chain]


LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")


@pytest.mark.parametrize("by_default", [False, True])
def test_rows_give_no_numbers_that_the_table_always_generates(tmp_path: Path, by_default: bool) -> None:
    """delta-spark refuses them, too, though the new column would be a plain one."""
    rows = Rows(tmp_path, "ID")
    creation.create(rows.state, schema_json(StructType((StructField("id", LONG, True, identity_metadata(1, 1, by_default=by_default)),))))
    with nullcontext() if by_default else pytest.raises(StatementRefused, match="id is GENERATED ALWAYS AS IDENTITY"):
        rows.overwrite()
    assert rows.written == by_default


@pytest.mark.parametrize(
    "left",
    [
        pytest.param([StructField("b", LONG, False)], id="must be given"),
        pytest.param([StructField("b", TEXT)], id="of another type"),
        pytest.param([], id="gone, and later of another type"),
    ],
)
@pytest.mark.parametrize("mode", ["none", "name"])
def test_rows_without_a_column_are_staged_again_where_it_was_replaced(tmp_path: Path, left: list[StructField], mode: str) -> None:
    """I3, I9: their files hold it with nulls, by the type that it had: nobody could read it, or a NOT NULL column would hold a null."""
    rowlock.append(path := str(tmp_path), pa.table({"id": [1]}), properties={"delta.columnMapping.mode": mode})
    state = state_of(LocalStore(tmp_path))
    alteration.add_columns(state, ArrowEngine(state.store), [StructField("b", LONG)])
    if left and not left[0].nullable:
        overwrite_schema(state, StructType((StructField("id", LONG),)), (), lambda draft, head: ([], []))
    schema = StructType((StructField("id", LONG), *left))
    with use_observer(Once(lambda: overwrite_schema(state, schema, (), lambda draft, head: ([], [])))):
        if left and not left[0].nullable:
            with pytest.raises(SchemaMismatch, match="NOT NULL"):
                rowlock.append(path, pa.table({"id": [2]}))
            return
        rowlock.append(path, pa.table({"id": [2]}))
    if not left:
        alteration.add_columns(state, ArrowEngine(state.store), [StructField("b", TEXT)])
    assert rowlock.to_arrow(path).to_pylist() == [{"id": 2, "b": None}]


def test_columns_of_the_same_name_and_type_keep_their_ids(tmp_path: Path) -> None:
    """As in delta-spark: who reads the table goes on, and it stays clustered.  No id is given twice."""

    def struct(x: PrimitiveType) -> StructType:
        return StructType((StructField("x", x), StructField("y", LONG)))

    def ids() -> dict[tuple[str, ...], tuple[int | None, str]]:
        return {path: (f.column_id, f.physical_name) for path, f in state.refresh().schema.all_fields()}

    rows = pa.table({"a": [1], "s": [{"x": 1, "y": 2}], "l": [[{"x": 1, "y": 2}]]})
    rowlock.append(path := str(tmp_path), rows, properties={"delta.columnMapping.mode": "name"})
    state = state_of(LocalStore(tmp_path))
    creation.cluster_by(state, [("a",)])
    same, before = StructType((StructField("a", LONG), StructField("s", struct(LONG)), StructField("l", ArrayType(struct(LONG))))), ids()

    def write(draft: Snapshot, head: Snapshot) -> tuple[Sequence[AddFile], Sequence[int]]:
        return stage_rows(state.store, draft, [rows], lambda t: t), ()

    overwrite_schema(state, same, (), write)
    assert (ids(), state.refresh().clustering_columns, rowlock.to_arrow(path).to_pylist()) == (before, (("a",),), rows.to_pylist())
    overwrite_schema(state, StructType((StructField("A", LONG), StructField("s", struct(TEXT)))), (), lambda draft, head: ((), ()))
    between = ids()
    assert [p for p, known in between.items() if before.get(p) == known or p == ("A",)] == [("A",), ("s", "y")] and between["A",] == before["a",]
    replace_table(state, creation.new_metadata(schema_json(same), (), {"delta.columnMapping.mode": "name"}), write=write, properties={})
    after = ids()
    assert after["a",] == before["a",] and after["s", "y"] == before["s", "y"] and rowlock.to_arrow(path).to_pylist() == rows.to_pylist()
    given = [number for number, _ in {*before.values(), *between.values(), *after.values()}]
    assert sorted(given) == list(range(1, len(given) + 1))


def test_a_replaced_table_with_manifests_has_no_deletion_vectors(tmp_path: Path) -> None:
    """As one that is made: a manifest cannot say which rows of a file are deleted."""
    given = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    table(tmp_path)
    state, schema = state_of(LocalStore(tmp_path)), schema_json(StructType((StructField("id", LONG),)))
    assert state.refresh().metadata.configuration == {"delta.enableDeletionVectors": "true"}
    replace_table(state, creation.new_metadata(schema, (), given), properties=given)
    assert state.refresh().metadata.configuration == given
