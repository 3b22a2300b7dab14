"""`rowlock.append` on every kind of table that it may write, and its refusals by name (I2, I6, I9)."""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowlock
from rowlock import clock
from rowlock.api.append import opened
from rowlock.engines.appends.engine import ArrowEngine, _Writer, stage_rows
from rowlock.exceptions import ConstraintViolated, InvalidInput, MetadataChangedException, SchemaMismatch, UnsupportedFeature, WrongType
from rowlock.protocol import names, row_tracking
from rowlock.protocol.actions import CommitInfo, Protocol
from rowlock.protocol.column_values import identity_metadata
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.schema import DecimalType, PrimitiveType, StructField, StructType, schema_json
from rowlock.storage.local import LocalStore
from rowlock.storage.open import open_store
from rowlock.storage.store import Unknown
from rowlock.transaction.definition import alteration, creation
from rowlock.transaction.definition.replacement import overwrite_schema
from rowlock.transaction.state.phases import Observer, use_observer
from support.appends import commit, create, data_files, info, numbers, rows
from support.turning_down import turn_down

ID = StructField("id", PrimitiveType("long"))


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "table")


def reader(*values: int) -> pa.RecordBatchReader:
    """A stream of one batch for each value."""
    return pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), [pa.record_batch({"id": pa.array([v])}) for v in values])


def test_a_folder_with_files_of_others_is_warned_of_and_one_where_others_stage_is_not(path: str, tmp_path: Path) -> None:
    """Two processes that make a table at once stage rows before either has made it."""
    rowlock.append(path, numbers(1))
    staged, foreign = tmp_path / "staged", tmp_path / "foreign"
    (file,) = data_files(path)
    for folder, name in ((staged, file), (staged, f"rl-{clock.new_id()[:13]}/part-0.parquet"), (foreign, "part-0.parquet")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(path) / file, folder / name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rowlock.append(staged, numbers(2))
    with pytest.warns(UserWarning, match="holds Parquet files, such as part-0.parquet"):
        rowlock.append(foreign, numbers(2))


def test_a_table_is_made_and_grows(path: str) -> None:
    first = rowlock.append(path, numbers(1, 2))
    second = rowlock.append(path, numbers(3).to_batches()[0])
    assert (first.version, second.version, second.read_version) == (0, 1, 0)
    assert rows(path) == [(1,), (2,), (3,)]
    assert rows(path, version=0) == [(1,), (2,)]
    said = info(path, 1)
    assert (said["operation"], said["isBlindAppend"], said["operationParameters"]) == ("WRITE", True, {"mode": "Append", "partitionBy": "[]"})
    assert said["operationMetrics"]["numOutputRows"] == "1"
    assert commit(path, 1).adds[0].num_records == 1


def test_no_rows_are_a_commit_without_files(path: str) -> None:
    rowlock.append(path, numbers(1))
    assert rowlock.append(path, numbers()).version == 1
    assert rows(path) == [(1,)]
    assert len(data_files(path)) == 1


@pytest.mark.usual_limits("it counts files")
def test_partitions(path: str) -> None:
    data = pa.table(
        {
            "k": ["a", "b/%", "a", None, ""],
            "d": pa.array([Decimal("1.10"), None, Decimal("1.10"), Decimal("2"), Decimal("2")], pa.decimal128(5, 2)),
            "v": [1, 2, 3, 4, 5],
        }
    )
    rowlock.append(path, data, partition_by=["K", "d"])
    assert rows(path) == sorted(
        [("a", Decimal("1.10"), 1), ("b/%", None, 2), ("a", Decimal("1.10"), 3), (None, Decimal("2.00"), 4), (None, Decimal("2.00"), 5)], key=repr
    )
    assert {tuple(a.partition_values.items()): a.num_records for a in commit(path, 0).adds} == {
        (("k", "a"), ("d", "1.10")): 2,
        (("k", "b/%"), ("d", None)): 1,
        (("k", None), ("d", "2.00")): 2,
    }
    with pytest.raises(InvalidInput, match="partitioned by k, d, not by v"):
        rowlock.append(path, data, partition_by="v")
    rowlock.append(path, data.select(["v", "k"]))
    assert rowlock.to_arrow(path, columns=["k"]).num_rows == 10


@pytest.mark.usual_limits("a partition is one file")
def test_the_ids_of_rows_follow_the_order_of_the_partitions(path: str) -> None:
    """I6: the same rows get the same ids, whichever file is written first."""
    data = pa.table({"p": [f"{n % 8}" for n in range(40, 0, -1)], "v": list(range(40))})
    for version in range(6):
        rowlock.append(path, data, partition_by="p", properties={} if version else {"delta.enableRowTracking": "true"})
        ids = {a.base_row_id: a.partition_values["p"] for a in commit(path, version).adds}
        assert [ids[i] for i in sorted(ids, key=lambda i: i or 0)] == list("07654321")


@pytest.mark.usual_limits("it counts files")
@pytest.mark.parametrize("twice", [["id", "id"], ["id", "ID"]])
def test_a_partition_column_named_twice_is_refused(path: str, twice: list[str]) -> None:
    """I5: the second one took the next column of the rows away, or all rows."""
    with pytest.raises(SchemaMismatch, match="named twice"):
        rowlock.append(path, pa.table({"id": [1], "v": [2], "w": [3]}), partition_by=twice)
    with pytest.raises(SchemaMismatch, match="named twice"):
        create(path, StructField("id", PrimitiveType("long")), StructField("v", PrimitiveType("long")), partition_by=tuple(twice))
    assert not (Path(path) / "_delta_log").exists()


@pytest.mark.parametrize("twice", [["id", "id"], ["id", "ID"]])
def test_a_clustering_column_named_twice_is_refused(path: str, twice: list[str]) -> None:
    with pytest.raises(InvalidInput, match="named twice"):
        creation.create(opened(path), schema_json(StructType((StructField("id", PrimitiveType("long")),))), cluster_by=[(name,) for name in twice])


def test_statistics_bound_the_rows(path: str) -> None:
    rowlock.append(path, pa.table({"id": [5, -3, None], "x": [1.5, math.nan, 0.0]}))
    stats = commit(path, 0).adds[0].stats
    assert stats == '{"numRecords":3,"minValues":{"id":-3},"maxValues":{"id":5},"nullCount":{"id":1,"x":0},"tightBounds":true}'


def test_files_say_by_which_calendar_they_count(path: str) -> None:
    """Without it Spark 3 refuses to read days before 1582."""
    rowlock.append(path, numbers(1))
    (name,) = data_files(path)
    assert pq.read_metadata(f"{path}/{name}").metadata == {b"org.apache.spark.version": b"4.0.0"}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(path: str, mode: str) -> None:
    rowlock.append(path, pa.table({"a b": [1], "s": [{"x": 1}]}), properties={"delta.columnMapping.mode": mode})
    state = opened(path)
    engine = ArrowEngine(state.store)
    alteration.rename_column(state, engine, ("a b",), "c,d")
    rowlock.append(path, pa.table({"C,D": [2]}))
    assert rows(path) == [(1, {"x": 1}), (2, None)]
    stored = {f.name: f.physical_name for f in state.refresh().schema.fields}
    assert all(set(pq.read_schema(f"{path}/{name}").names) == set(stored.values()) for name in data_files(path))
    assert f'"{stored["c,d"]}":2' in (commit(path, 2).adds[0].stats or "")


def test_tracked_rows_get_ids_that_are_never_given_twice(path: str) -> None:
    rowlock.append(path, numbers(1, 2, 3), properties={"delta.enableRowTracking": "true"})
    rowlock.append(path, numbers(4, 5))
    rowlock.append(path, numbers(6))
    assert [commit(path, v).adds[0].base_row_id for v in range(3)] == [0, 3, 5]
    assert [commit(path, v).adds[0].default_row_commit_version for v in range(3)] == [0, 1, 2]
    snapshot = opened(path).refresh()
    assert row_tracking.high_water_mark(snapshot.domains, path) == 5


def test_in_commit_timestamps_rise_and_feeds_need_no_files(path: str) -> None:
    rowlock.append(path, numbers(1), properties={"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"})
    rowlock.append(path, numbers(2))
    rowlock.append(path, numbers(3))
    times = [info(path, v)["inCommitTimestamp"] for v in range(3)]
    assert times == sorted(set(times))
    assert not any(commit(path, v).cdc for v in range(3))
    assert rows(path) == [(1,), (2,), (3,)]


def test_a_step_of_an_application_is_added_once(path: str) -> None:
    done = [rowlock.append(path, numbers(n), app_id="loader", app_version=v) for n, v in ((1, 0), (1, 0), (2, 1), (1, 0))]
    assert [r.already_committed for r in done] == [False, True, False, True]
    assert [r.version for r in done] == [0, None, 1, None]
    assert rows(path) == [(1,), (2,)]
    with pytest.raises(InvalidInput, match="go together"):
        rowlock.append(path, numbers(1), app_id="loader")


def test_a_step_that_is_found_is_durable_before_it_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: who put it may have been killed before the name of the commit was durable, and then the machine loses its power (`local` 120000396)."""
    path, rows = str(tmp_path / "t"), pa.table({"id": [1]})
    rowlock.append(path, rows, app_id="a", app_version=0)
    synced: list[str] = []
    monkeypatch.setattr(LocalStore, "sync", lambda self, key: synced.append(key))
    assert rowlock.append(path, rows, app_id="a", app_version=0).already_committed and synced == [names.commit_key(0)]


CHECKED = {
    "a CHECK constraint": ({"delta.constraints.small": "id + 0 < 10"}, ID),
    "an invariant": ({}, StructField("id", PrimitiveType("long"), True, {"delta.invariants": '{"expression":{"expression":"id + 0 < 10"}}'})),
}


@pytest.mark.parametrize("name", CHECKED)
def test_what_only_spark_can_evaluate_is_refused_by_name(path: str, name: str) -> None:
    properties, field = CHECKED[name]
    create(path, field, properties=properties)
    with pytest.raises(UnsupportedFeature, match=r"id \+ 0 < 10.*rowlock\.write") as e:
        rowlock.append(path, numbers(1))
    assert (e.value.feature, e.value.access) == ("checkConstraints", "write")
    assert data_files(path) == set()


def test_a_condition_that_every_engine_decides_alike_is_asked_of_the_rows(path: str) -> None:
    create(path, ID, properties={"delta.constraints.small": "id < 10 AND NOT id IN (3, 4)"})
    rowlock.append(path, numbers(1, 9))
    for bad in (numbers(1, 10), numbers(4), pa.table({"id": pa.array([None], pa.int64())})):
        with pytest.raises(ConstraintViolated, match=r"small \(id < 10") as e:
            rowlock.append(path, bad)
        assert e.value.constraint == "small"
    assert rows(path) == [(1,), (9,)] and len(data_files(path)) == 1


def test_an_empty_text_in_a_partition_column_is_null_where_conditions_are_asked(path: str) -> None:
    create(path, ID, StructField("p", PrimitiveType("string")), partition_by=("p",), properties={"delta.constraints.some": "id < 2 OR p IS NOT NULL"})
    rowlock.append(path, pa.table({"id": [1, 2], "p": ["", "x"]}))
    with pytest.raises(ConstraintViolated, match="some"):
        rowlock.append(path, pa.table({"id": [2], "p": [""]}))
    assert rows(path) == [(1, None), (2, "x")]


def test_an_empty_binary_value_in_a_partition_column_is_null_too(path: str) -> None:
    create(path, ID, StructField("p", PrimitiveType("binary"), False), partition_by=("p",))
    rowlock.append(path, pa.table({"id": [1], "p": [b"x"]}))
    with pytest.raises(ConstraintViolated, match="Column p is NOT NULL"):
        rowlock.append(path, pa.table({"id": [2], "p": [b""]}))
    assert rows(path) == [(1, b"x")]


def test_a_column_that_makes_its_own_values_is_refused_by_name(path: str) -> None:
    rowlock.append(path, numbers(1))
    log = opened(path)
    head = log.refresh()
    text = head.metadata.schema_string.replace('"metadata":{}', '"metadata":{"delta.generationExpression":"1 + 1"}')
    assert text != head.metadata.schema_string
    data = serialize_commit(
        CommitInfo({"timestamp": 1, "operation": "ALTER"}), protocol=Protocol(1, 4), metadata=replace(head.metadata, configuration={}, schema_string=text)
    )
    log.log.put(1, data)
    with pytest.raises(UnsupportedFeature) as e:
        rowlock.append(path, numbers(1))
    assert e.value.feature == "generatedColumns"
    assert len(data_files(path)) == 1


# ---- streams ---------------------------------------------------------------------------------


@pytest.mark.usual_limits("it counts files")
def test_a_stream_becomes_files_of_bounded_size(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_down(monkeypatch, append_file_bytes=8 * 100)
    batches = [pa.record_batch({"id": pa.array(range(start, start + 50))}) for start in range(0, 500, 50)]
    rowlock.append(path, pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert [a.num_records for a in commit(path, 0).adds] == [100] * 5
    assert rows(path) == sorted(((n,) for n in range(500)), key=repr)


def test_memory_is_bounded_over_all_partitions(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many partitions none of which fills a file, the largest are written when together they are too much."""
    turn_down(monkeypatch, append_held_bytes=1_000)
    seen: list[int] = []
    add = _Writer.add

    def spy(self: Any, part: pa.Table) -> None:
        add(self, part)
        seen.append(self._held)

    monkeypatch.setattr(_Writer, "add", spy)
    batches = [pa.record_batch({"p": pa.array([n % 7 for n in range(50)]), "v": pa.array([k] * 50)}) for k in range(20)]
    rowlock.append(path, pa.RecordBatchReader.from_batches(batches[0].schema, batches), partition_by="p")
    assert max(seen) <= 1_000
    assert rowlock.to_arrow(path).num_rows == 1_000
    assert len(commit(path, 0).adds) > 7


@pytest.mark.usual_limits("it counts files")
def test_large_tables_are_worked_on_in_pieces(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_down(monkeypatch, stream_piece_bytes=8 * 30)
    turn_down(monkeypatch, append_file_bytes=8 * 60)
    rowlock.append(path, numbers(*range(200)))
    assert [a.num_records for a in commit(path, 0).adds] == [60, 60, 60, 20]


def test_a_reader_that_was_read_is_refused(path: str) -> None:
    """Named regression 4: a drained reader appends nothing, in silence."""
    stream = reader(1, 2)
    rowlock.append(path, stream)
    with pytest.raises(InvalidInput, match="given before"):
        rowlock.append(path, stream)
    assert rows(path) == [(1,), (2,)]


def test_a_reader_that_was_refused_unread_may_be_given_again(path: str) -> None:
    rowlock.append(path, pa.table({"a": ["x"]}), app_id="loader", app_version=1)
    stream = reader(1)
    with pytest.raises(SchemaMismatch):
        rowlock.append(path, stream)
    rowlock.append(path, stream, app_id="loader", app_version=1)  # is there already
    rowlock.append(path + "2", stream)
    assert rows(path + "2") == [(1,)]


@pytest.mark.usual_limits("it reads a stream again")
def test_a_stream_of_which_a_part_was_read_is_read_on_where_its_rows_are_staged_again(path: str) -> None:
    """I2: before, what was left of it was not appended, in silence: here an identity column was replaced while its numbers were being reserved."""
    state, schema = opened(path), StructType((ID, StructField("v", PrimitiveType("long"))))
    creation.create(state, schema_json(StructType((replace(ID, metadata=identity_metadata(1, 1, by_default=True)), schema.fields[1]))))

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(4):
            if n == 1:
                overwrite_schema(state, schema, (), lambda draft, head: ([], []))
            yield pa.record_batch({"v": pa.array([n])})

    rowlock.append(path, pa.RecordBatchReader.from_batches(pa.schema([("v", pa.int64())]), batches()))
    assert rows(path) == [(None, n) for n in range(4)]


def test_what_came_of_a_stream_that_failed_is_not_appended(path: str) -> None:
    """Also where it fails by an error after which a statement is run again by itself, as of a table that the rows are read from."""
    rowlock.append(path, numbers(1))

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([2])})
        raise MetadataChangedException("of another table")

    with pytest.raises(InvalidInput, match="the stream failed") as e:
        rowlock.append(path, pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert isinstance(e.value.__cause__, MetadataChangedException) and rows(path) == [(1,)]


class Once(Observer):
    """Does something when a transaction comes to a phase for the first time."""

    def __init__(self, phase: str, deed: Any) -> None:
        self._phase, self._deed = phase, deed

    def phase(self, name: str, txn: Any) -> None:
        if name == self._phase and self._deed is not None:
            deed, self._deed = self._deed, None
            deed()


def test_a_stream_is_staged_again_from_what_was_kept(path: str) -> None:
    """Named regression 4: the table is changed under a stream that has been read; its rows are staged again, all of them."""
    create(path, ID, properties={"delta.enableDeletionVectors": "false"})
    state = opened(path)
    with use_observer(Once("staged", lambda: creation.set_properties(state, {"delta.enableRowTracking": "true"}))):
        receipt = rowlock.append(path, reader(1, 2, 3))
    assert receipt.metrics["numOutputRows"] == 3
    assert rows(path) == [(1,), (2,), (3,)]


def test_a_stream_too_large_to_be_kept_is_refused_when_it_is_needed_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_down(monkeypatch, stream_kept_bytes=8)
    create(path, ID, properties={"delta.enableDeletionVectors": "false"})
    state = opened(path)
    with (
        use_observer(Once("staged", lambda: creation.set_properties(state, {"delta.enableRowTracking": "true"}))),
        pytest.raises(InvalidInput, match="stream that has been read"),
    ):
        rowlock.append(path, reader(1, 2, 3))
    assert rows(path) == []


def test_streams_of_others(path: str) -> None:
    class Exported:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return numbers(1, 2).__arrow_c_stream__(requested_schema)

    rowlock.append(path, Exported())
    assert rows(path) == [(1,), (2,)]
    with pytest.raises(WrongType, match="not dict"):
        rowlock.append(path, {"id": [1]})


# ---- beside others ---------------------------------------------------------------------------


def test_a_column_that_came_while_rows_were_staged_is_null(path: str) -> None:
    create(path, ID)
    state = opened(path)
    add = [StructField("more", DecimalType(5, 2))]
    with use_observer(Once("staged", lambda: alteration.add_columns(state, ArrowEngine(state.store), add))):
        receipt = rowlock.append(path, numbers(1))
    assert (receipt.version, receipt.rounds) == (2, 1)
    assert rows(path) == [(1, None)]


@pytest.mark.parametrize("given", ["kept", "gone"])
def test_a_column_that_went_while_rows_were_staged(path: str, given: str) -> None:
    """Rows that have no value for it stand; rows that have one no longer fit, as if they had come later."""
    create(path, StructField("kept", PrimitiveType("long")), StructField("gone", PrimitiveType("long")), properties={"delta.columnMapping.mode": "name"})
    state = opened(path)
    drop = Once("staged", lambda: alteration.drop_columns(state, ArrowEngine(state.store), [("gone",)]))
    with use_observer(drop):
        if given == "kept":
            rowlock.append(path, pa.table({"kept": [1]}))
        else:
            with pytest.raises(InvalidInput, match="no column 'gone'"):
                rowlock.append(path, pa.table({"kept": [1], "gone": [2]}))
    assert rows(path) == ([(1,)] if given == "kept" else [])


def test_a_column_that_became_wider_while_rows_were_staged(path: str) -> None:
    """Rows that have values for it are staged again, under the wider type."""
    create(path, StructField("id", PrimitiveType("integer")), properties={"delta.enableTypeWidening": "true"})
    state = opened(path)
    widen = Once(
        "staged",
        lambda: alteration.edit_columns(state, ArrowEngine(state.store), [alteration.ColumnEdit(("id",), like=StructField("id", PrimitiveType("long")))]),
    )
    with use_observer(widen):
        rowlock.append(path, pa.table({"id": pa.array([1], pa.int32())}))
    rowlock.append(path, numbers(2**40))
    assert rows(path) == [(1,), (2**40,)]
    assert {str(pq.read_schema(f"{path}/{a.path}").field("id").type) for v in (2, 3) for a in commit(path, v).adds} == {"int64"}


@pytest.mark.parametrize("condition", ["id < 10", "id + 0 < 10"])
def test_a_new_constraint_is_refused_by_name_and_not_passed(path: str, condition: str) -> None:
    """Of rows that are staged already it is not asked: they are staged again where it can be decided, and refused where it is broken."""
    create(path, ID)
    state = opened(path)

    def constrain() -> None:
        head = state.refresh()
        configuration = {**head.metadata.configuration, "delta.constraints.small": condition}
        protocol = creation.upgraded(head.protocol, configuration)
        state.log.put(
            1,
            serialize_commit(
                CommitInfo({"timestamp": 1, "operation": "ADD CONSTRAINT"}), protocol=protocol, metadata=replace(head.metadata, configuration=configuration)
            ),
        )

    with use_observer(Once("staged", constrain)), pytest.raises((UnsupportedFeature, MetadataChangedException, ConstraintViolated), match="small"):
        rowlock.append(path, numbers(11))
    assert rows(path) == []


def test_a_new_not_null_is_asked_of_staged_rows(path: str) -> None:
    create(path, ID)
    state = opened(path)
    tighten = Once("staged", lambda: alteration.edit_columns(state, ArrowEngine(state.store), [alteration.ColumnEdit(("id",), nullable=False)]))
    with use_observer(tighten), pytest.raises(ConstraintViolated, match="id is NOT NULL"):
        rowlock.append(path, numbers(1, None))
    assert rows(path) == []


def test_two_that_make_the_table(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes second appends to what the first one made."""
    real = stage_rows

    def beaten(*arguments: Any) -> Any:
        monkeypatch.undo()
        rowlock.append(path, numbers(1))
        return real(*arguments)

    monkeypatch.setattr("rowlock.api.append.stage_rows", beaten)
    assert rowlock.append(path, reader(2)).version == 1
    assert rows(path) == [(1,), (2,)]


def test_a_lost_reply_adds_nothing_twice() -> None:
    """Named regression 10, by I2: the put landed, its reply did not."""
    place = "memory://append-lost-reply"
    rowlock.append(place, numbers(1))
    store: Any = open_store(place)
    store.faults = lambda moment, key, data: Unknown("the reply was lost") if moment == "after" else None
    try:
        receipt = rowlock.append(place, numbers(2))
    finally:
        store.faults = None
    assert (receipt.version, receipt.attempts) == (1, 1)
    assert rows(place) == [(1,), (2,)]


def test_lockless_tables(path: str) -> None:
    rowlock.append(path, numbers(1), properties={"delta.enableRowTracking": "true", "rowlock.onConflict": "lockless"})
    with use_observer(Once("staged", lambda: rowlock.append(path, numbers(2)))):
        assert rowlock.append(path, numbers(3)).rounds == 1
    assert rows(path) == [(1,), (2,), (3,)]


def test_fail_lets_blind_appends_be(path: str) -> None:
    rowlock.append(path, numbers(1), properties={"rowlock.onConflict": "fail", "rowlock.granularity": "file"})
    with use_observer(Once("staged", lambda: rowlock.append(path, numbers(2)))):
        rowlock.append(path, numbers(3))
    assert rows(path) == [(1,), (2,), (3,)]
    state = opened(path)
    more = [StructField("more", PrimitiveType("long"))]
    with use_observer(Once("staged", lambda: alteration.add_columns(state, ArrowEngine(state.store), more))), pytest.raises(MetadataChangedException):
        rowlock.append(path, numbers(4))


def test_a_steady_writer_lists_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of a table is kept between calls."""
    place = "memory://append-steady"
    rowlock.append(place, numbers(1))
    rowlock.append(place, numbers(2))
    store: Any = open_store(place)
    listed: list[str] = []
    monkeypatch.setattr(store, "list", lambda *a, **k: listed.append("list") or iter(()))
    for n in range(3, 6):
        rowlock.append(place, numbers(n))
    assert rows(place) == [(n,) for n in range(1, 6)]
    assert listed == []
