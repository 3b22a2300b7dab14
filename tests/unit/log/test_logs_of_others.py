"""Logs as other writers leave them, made by hand: what is valid is read as delta-spark reads it, what is not is named with its table and file (I9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import rowlock
from rowlock import clock
from rowlock.api.append import opened
from rowlock.boundary.row_identity import columns_of
from rowlock.exceptions import CorruptLog, SchemaMismatch, UnsupportedFeature, VersionNotFound
from rowlock.limits import limited
from rowlock.log.table_log import TableLog
from rowlock.parquet.files import open_parquet
from rowlock.protocol import deletion_vector as dv, names
from rowlock.protocol.action_json import protocol_from
from rowlock.protocol.actions import Protocol
from rowlock.protocol.predicates import compare
from rowlock.protocol.schema import parse_schema
from rowlock.storage.local import LocalStore
from rowlock.transaction.definition import creation

Json = dict[str, Any]
_VECTORS = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
_STATS = '{"numRecords":2,"minValues":{"a":1},"maxValues":{"a":2}}'


def column(name: str, type_: Any = "long", **metadata: Any) -> Json:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


class Made:
    """A table whose log is written line by line; its first data file holds 1 and 2 in column `a`."""

    def __init__(
        self, folder: Path, *columns: Json, protocol: Json | None = None, configuration: Json | None = None, add: Json | None = None, **metadata: Any
    ) -> None:
        self.path, self.folder = str(folder), folder
        (folder / names.LOG_DIRECTORY).mkdir(parents=True)
        self.metadata = {
            "id": "i",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": orjson.dumps({"type": "struct", "fields": list(columns) or [column("a")]}).decode(),
            "partitionColumns": [],
            "configuration": configuration or {},
            **metadata,
        }
        self.protocol = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
        self.first = self.file("x.parquet", 1, 2) | (add or {})
        self.commit(0, {"commitInfo": {"timestamp": 1}}, {"protocol": self.protocol}, {"metaData": self.metadata}, {"add": self.first})

    def file(self, name: str, *values: int) -> Json:
        pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), self.folder / name)
        size = (self.folder / name).stat().st_size
        return {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True, "stats": _STATS}

    def commit(self, version: int, *actions: Any) -> None:
        (self.folder / names.commit_key(version)).write_bytes(b"\n".join(map(orjson.dumps, actions)))

    @property
    def log(self) -> TableLog:
        return TableLog(LocalStore(self.path))

    def rows(self, **how: Any) -> list[Json]:
        return rowlock.to_arrow(self.path, **how).to_pylist()

    def checkpoint(self, *adds: Json) -> None:
        """A checkpoint of version 0."""
        texts = pa.map_(pa.string(), pa.string())
        vector = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("sizeInBytes", pa.int32()), ("cardinality", pa.int64())])
        add = pa.struct([("path", pa.string()), ("partitionValues", texts), ("size", pa.int64()), ("deletionVector", vector)])
        features = pa.list_(pa.string())
        protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("readerFeatures", features), ("writerFeatures", features)])
        metadata = pa.struct([("id", pa.string()), ("schemaString", pa.string())])
        rows = [{"protocol": self.protocol}, {"metaData": self.metadata}, *({"add": {**a, "partitionValues": []}} for a in adds)]
        columns = {name: pa.array([row.get(name) for row in rows], type_) for name, type_ in (("protocol", protocol), ("metaData", metadata), ("add", add))}
        pq.write_table(pa.table(columns), self.folder / names.checkpoint_key(0))


def inline(*positions: int, **other: Any) -> Json:
    vector = dv.inline(BitMap64(positions), limit_bytes=1_000)
    assert vector is not None
    return {"storageType": "i", "pathOrInlineDv": vector.path_or_inline_dv, "sizeInBytes": vector.size_bytes, "cardinality": len(positions), **other}


TWO = [{"a": 1}, {"a": 2}]


# ---- texts that are numbers -------------------------------------------------------------------


@pytest.mark.parametrize(
    "add",
    [{"tags": {"k": 1, "z": None}}, {"clusteringProvider": 5}, {"tags": {"k": {"b": 1}}}],
    ids=["a number as a tag", "a number as a provider", "a nested tag"],
)
def test_what_is_no_text_becomes_one_so_that_checkpoints_can_be_written(tmp_path: Path, add: Json) -> None:
    """delta-spark's reader of JSON makes texts of them; before, each checkpoint of such a table failed."""
    table = Made(tmp_path / "t", configuration={"delta.checkpointInterval": 1, "delta.columnMapping.mode": None}, name=5, add=add)
    rowlock.append(table.path, pa.table({"a": [3]}))
    assert (tmp_path / "t" / names.checkpoint_key(1)).exists()
    assert table.rows() == [*TWO, {"a": 3}]
    assert table.log.latest().metadata.name == "5"


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"schemaString": '{"type":"struct","fields":[{"name":5,"type":"long"}]}'}, "name 5"),
        ({"schemaString": '{"type":"struct","fields":[{"name":"a","type":"long","metadata":[1]}]}'}, r"metadata \[1\]"),
        ({"partitionColumns": ["zz"]}, "partitioned by 'zz'"),
        ({"partitionColumns": ["A"]}, "partitioned by 'A'"),
    ],
)
def test_a_definition_that_is_none_is_named(tmp_path: Path, metadata: Json, what: str) -> None:
    table = Made(tmp_path / "t", **metadata)
    for call in (table.rows, lambda: rowlock.append(table.path, pa.table({"a": [3]}))):
        with pytest.raises(CorruptLog, match=what) as e:
            call()
        assert e.value.table == table.path


def test_other_kinds_of_metadata_are_read(tmp_path: Path) -> None:
    table = Made(tmp_path / "t", description={"a": 1}, format={"provider": 5})
    with pytest.raises(UnsupportedFeature, match="data format 5"):
        table.rows()
    table = Made(tmp_path / "u", description={"a": 1})
    rowlock.append(table.path, pa.table({"a": [3]}))
    assert table.log.latest().metadata.description == '{"a":1}'


@pytest.mark.parametrize("action", [{"commitInfo": 5}, {"commitInfo": "x"}, {"commitInfo": []}, {"cdc": 5}])
def test_an_action_that_is_no_object_is_damage(tmp_path: Path, action: Json) -> None:
    table = Made(tmp_path / "t")
    table.commit(1, action)
    with pytest.raises(CorruptLog, match=r"line of the commit cannot be read.*00001\.json"):
        table.rows()


# ---- columns ----------------------------------------------------------------------------------


def test_names_of_types_that_spark_reads_beside_its_own() -> None:
    """Spark before 3.1 wrote `null`, which Spark still reads, and so it is with `timestamp_ltz`."""
    text = '{"type":"struct","fields":[{"name":"a","type":"null"},{"name":"b","type":{"type":"array","elementType":"timestamp_ltz"}}]}'
    assert parse_schema(text) == parse_schema(text.replace('"null"', '"void"').replace("timestamp_ltz", "timestamp"))


def test_a_column_of_nulls_of_an_old_spark(tmp_path: Path) -> None:
    assert Made(tmp_path / "t", column("a"), column("b", "null")).rows() == [{"a": 1, "b": None}, {"a": 2, "b": None}]


MAPPED = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}


def test_names_that_column_mapping_left_mean_nothing_without_it(tmp_path: Path) -> None:
    """A bug of older delta-spark leaves them.  Statistics under such a name said that all values are null: every engine that skips files missed the rows."""
    table = Made(tmp_path / "t", column("a", **MAPPED), column("s", {"type": "struct", "fields": [column("n", **MAPPED)]}))
    rowlock.append(table.path, pa.table({"a": [5]}))
    head = table.log.latest()
    (added,) = (f for f in head.files.adds() if f.path != "x.parquet")
    assert orjson.loads(added.stats or "")["minValues"] == {"a": 5}
    five, two = (head.files.prune(compare("=", ("a",), value), head.schema, ()) for value in (5, 2))
    assert [f.path for f in five] == [added.path] and [f.path for f in two] == ["x.parquet"]
    assert "columnMapping" not in head.metadata.schema_string


def test_column_mapping_is_turned_on_over_what_it_left(tmp_path: Path) -> None:
    """The files know their columns by the columns' own names, and before were read by those that were left: all values were null."""
    table = Made(tmp_path / "t", column("a", **MAPPED))
    creation.set_properties(opened(table.path), {"delta.columnMapping.mode": "name"})
    assert table.rows() == TWO
    assert table.log.latest().schema.fields[0].physical_name == "a"


def test_names_of_column_mapping_stay_where_it_is_on(tmp_path: Path) -> None:
    table = Made(
        tmp_path / "t", column("a", **MAPPED), protocol={"minReaderVersion": 2, "minWriterVersion": 5}, configuration={"delta.columnMapping.mode": "name"}
    )
    assert table.log.latest().schema.fields[0].physical_name == "col-1"


# ---- deletion vectors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0},
        {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1, "sizeInBytes": 4, "cardinality": 0},
    ],
)
def test_a_vector_that_marks_nothing_need_not_be_there(tmp_path: Path, vector: Json) -> None:
    """delta-spark's own empty one has no bytes, and it reads none of them."""
    assert Made(tmp_path / "t", protocol=_VECTORS, add={"deletionVector": vector}).rows() == TWO


def test_a_kind_of_vector_of_a_newer_delta_is_refused_by_name(tmp_path: Path) -> None:
    vector = inline(0, storageType="r")
    table = Made(tmp_path / "t", protocol=_VECTORS, add={"deletionVector": vector})
    with pytest.raises(UnsupportedFeature, match="storage type 'r'") as e:
        table.rows()
    assert e.value.table == table.path
    table.checkpoint({"path": "x.parquet", "size": 1, "deletionVector": vector})
    with pytest.raises(UnsupportedFeature, match="storage type 'r'"):
        table.rows()


def test_a_damaged_vector_names_its_table_and_data_file(tmp_path: Path) -> None:
    with pytest.raises(CorruptLog, match=r"vector of data file x\.parquet cannot be read: a Z85 text") as e:
        Made(tmp_path / "t", protocol=_VECTORS, add={"deletionVector": inline(0, pathOrInlineDv="wi5b=0")}).rows()
    assert (e.value.table, e.value.file) == (str(tmp_path / "t"), "x.parquet")


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """A block in which the log has no commit before its checkpoint, so that nothing is read past it."""
    commit = place / "t" / names.commit_key(0)
    data = commit.read_bytes()
    commit.unlink()
    yield
    commit.write_bytes(data)


def test_half_a_vector_in_a_checkpoint_is_damage(tmp_path: Path) -> None:
    table = Made(tmp_path / "t", protocol=_VECTORS)
    table.checkpoint({"path": "x.parquet", "size": 1, "deletionVector": inline(0, pathOrInlineDv=None)})
    with alone(tmp_path), pytest.raises(CorruptLog, match=r"lacks its place.*checkpoint\.parquet"):
        table.rows()


@pytest.mark.parametrize("spelled", ["x.parquet", "%78.parquet"])
@pytest.mark.parametrize("turned", [False, True])
def test_two_entries_of_one_path_in_a_checkpoint_are_damage(tmp_path: Path, turned: bool, spelled: str) -> None:
    """A writer added a vector and left the entry before it.  Before, the last of the two counted, in whatever order they lay."""
    table = Made(tmp_path / "t", protocol=_VECTORS)
    entries = [{"path": "x.parquet", "size": 1}, {"path": spelled, "size": 1, "deletionVector": inline(0)}]
    table.checkpoint(*(reversed(entries) if turned else entries), {"path": "y.parquet", "size": 1, "deletionVector": inline(1)})
    with alone(tmp_path), pytest.raises(CorruptLog, match=r"holds x\.parquet twice.*delete the checkpoint.*checkpoint\.parquet"):
        table.rows()
    (tmp_path / "t" / names.checkpoint_key(0)).unlink()
    assert table.rows() == TWO
    lines = [{"protocol": table.protocol}, {"metaData": table.metadata}, *({"add": entry} for entry in entries)]
    json = names.checkpoint_key(0).replace(".parquet", ".80a083e8-7026-4e79-81be-64bd76c43a11.json")
    (tmp_path / "t" / json).write_bytes(b"\n".join(map(orjson.dumps, lines)))
    with alone(tmp_path), pytest.raises(CorruptLog, match=r"holds x\.parquet twice"):
        table.log.latest()


@pytest.mark.parametrize("spelled", ["x.parquet", "%78.parquet"])
def test_an_entry_that_a_checkpoint_holds_twice_counts_once(tmp_path: Path, spelled: str) -> None:
    """delta-spark takes entries of one path and one vector for one file.  Many files are held as frames, whose paths must differ."""
    table = Made(tmp_path / "t", protocol=_VECTORS)
    entry = {"path": "x.parquet", "size": table.first["size"], "deletionVector": inline(0)}
    table.checkpoint(entry, {**entry, "path": spelled})
    with limited(changed_files=0):
        assert table.rows() == [{"a": 2}]
        assert len(table.log.latest().files) == 1


# ---- data files and partition values ----------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "cut", "data", "folder"])
def test_a_data_file_that_cannot_be_read_is_named(tmp_path: Path, damage: str) -> None:
    table = Made(tmp_path / "t")
    place = tmp_path / "t" / "x.parquet"
    body = place.read_bytes()
    place.unlink()
    if damage == "folder":
        place.mkdir()
    else:
        place.write_bytes({"empty": b"", "cut": body[:99], "data": body[:30] + bytes(b ^ 255 for b in body[30:90]) + body[90:]}[damage])
    with pytest.raises(CorruptLog, match=r"data file cannot be read.*backup") as e:
        table.rows()
    assert (e.value.table, e.value.file) == (table.path, "x.parquet")


def test_a_file_of_which_arrow_says_itself_that_it_is_wrong_is_named(tmp_path: Path) -> None:
    """Arrow says that a number is not in the dictionary by the same error by which it says that a file holds too much for it."""
    table = Made(tmp_path / "t")
    place = tmp_path / "t" / "x.parquet"
    body = place.read_bytes()
    for at in range(4, len(body)):
        place.write_bytes(body[:at] + bytes([body[at] ^ 255]) + body[at + 1 :])
        with suppress(OSError, pa.ArrowInvalid), pq.ParquetFile(place) as source:
            try:
                source.read()
            except pa.ArrowInvalid:
                break
    else:
        pytest.fail("no damage gives ArrowInvalid")
    with pytest.raises(UnsupportedFeature, match=r"file x\.parquet is not certain.*rowlock\.read") as e:
        table.rows()
    assert (e.value.table, e.value.feature) == (table.path, "files that Arrow does not read")


def test_what_arrow_cannot_hold_is_no_damage(tmp_path: Path) -> None:
    """Statements leave such a file to Spark by this error."""
    table = Made(tmp_path / "t")
    with pytest.raises(pa.ArrowInvalid, match="offset overflow"), open_parquet(table.log.store, "x.parquet"):
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")


@pytest.mark.parametrize(
    ("type_", "text"),
    [("integer", "x"), ("integer", "1_0"), ("double", "1_0"), ("decimal(5,2)", "1_0"), ("decimal(5,2)", "NaN"), ("decimal(5,2)", "1e400"), ("decimal(5,2)", "1000"), ("decimal(5,2)", "999.996")],
)  # fmt: skip
def test_a_partition_value_that_is_none_names_its_file(tmp_path: Path, type_: str, text: str) -> None:
    table = Made(tmp_path / "t", column("a"), column("p", type_), partitionColumns=["p"], add={"partitionValues": {"p": text}})
    with pytest.raises(CorruptLog, match=f"value '{text}' is not a value of type") as e:
        table.rows()
    assert (e.value.table, e.value.file) == (table.path, "x.parquet")


def test_partition_values_that_are_numbers(tmp_path: Path) -> None:
    table = Made(tmp_path / "t", column("a"), column("p", "integer"), partitionColumns=["p"], add={"partitionValues": {"p": 7}})
    assert [row["p"] for row in table.rows()] == [7, 7]
    assert next(iter(table.log.latest().files.adds())).partition_values == {"p": "7"}


# ---- times ------------------------------------------------------------------------------------


def test_times_in_commits_hold_whatever_the_files_times_are(tmp_path: Path) -> None:
    """PROTOCOL.md, Recommendations for Readers: from the time of enablement on only the versions from then on count.  A copy gives all files the time of the copy."""
    since = {"delta.inCommitTimestampEnablementVersion": "2", "delta.inCommitTimestampEnablementTimestamp": "5000"}
    table = Made(tmp_path / "t", protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]})
    table.commit(1, {"commitInfo": {"timestamp": 2}})
    table.commit(
        2, {"commitInfo": {"inCommitTimestamp": 5_000}}, {"metaData": {**table.metadata, "configuration": {"delta.enableInCommitTimestamps": "true", **since}}}
    )
    table.commit(3, {"commitInfo": {"inCommitTimestamp": 9_000}})
    assert table.log.commit_times() == [(0, 4_998), (1, 4_999), (2, 5_000), (3, 9_000)]
    assert [table.log.at_timestamp(at).version for at in (5_000, 8_999, 9_000)] == [2, 2, 3]
    with pytest.raises(VersionNotFound):
        table.log.at_timestamp(9_001)


# ---- the protocol -----------------------------------------------------------------------------


def test_empty_lists_of_features_below_the_versions_that_have_them_are_none(tmp_path: Path) -> None:
    """delta-spark refuses a checksum and a checkpoint with one: ours took it over from the commit."""
    empty = {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [], "writerFeatures": []}
    table = Made(tmp_path / "t", protocol=empty, configuration={"delta.checkpointInterval": "1", "rowlock.checksums": "true"})
    rowlock.append(table.path, pa.table({"a": [3]}))
    checksum = orjson.loads((tmp_path / "t" / names.checksum_key(1)).read_bytes())
    assert checksum["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    (held,) = (p for p in pq.read_table(tmp_path / "t" / names.checkpoint_key(1))["protocol"].to_pylist() if p)
    assert held == {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None}
    assert protocol_from({"minReaderVersion": 3, "minWriterVersion": 7}) == Protocol(3, 7, frozenset(), frozenset())


def test_row_tracking_without_names_for_its_columns_has_no_ids(tmp_path: Path) -> None:
    tracked = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]}
    table = Made(tmp_path / "t", protocol=tracked, configuration={"delta.enableRowTracking": "true"})
    assert columns_of(table.log.latest()) is None
    with pytest.raises(UnsupportedFeature, match="materializedRowIdColumnName"):
        rowlock.append(table.path, pa.table({"a": [3]}))


def test_the_first_time_in_a_commit_is_later_than_the_file_before_it(tmp_path: Path) -> None:
    """PROTOCOL.md, Writer Requirements for In-Commit Timestamps; the clock of this machine is behind that of the store."""

    class Behind(clock.SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() - 3_600_000

    table = Made(tmp_path / "t")
    with clock.use(Behind()):
        creation.set_properties(opened(table.path), {"delta.enableInCommitTimestamps": "true"})
    at = table.log.store.modified_ms(names.commit_key(0))
    head = table.log.latest()
    assert at is not None and head.timestamp_ms == at + 1
    assert head.metadata.configuration["delta.inCommitTimestampEnablementTimestamp"] == str(at + 1)
    assert table.log.commit_times() == [(0, at), (1, at + 1)]


# ---- data files of Arrow's writers ------------------------------------------------------------


@pytest.mark.parametrize("form", [pa.large_list, lambda item: pa.list_(item, 2)], ids=["large", "fixed"])
def test_lists_in_any_of_arrows_forms_are_arrays(tmp_path: Path, form: Any) -> None:
    """Polars writes large lists, and embeddings have a fixed length: the footer says so to Arrow alone, and the file's columns are the same."""
    inner = {"type": "struct", "fields": [column("Y", {"type": "array", "elementType": "double", "containsNull": True})]}
    table = Made(tmp_path / "t", column("a"), column("v", {"type": "array", "elementType": inner, "containsNull": True}))
    held = pa.array([[{"y": [1.0, None]}, None], None], form(pa.struct([("y", form(pa.float32()))])))
    pq.write_table(pa.table({"a": [1, 2], "v": held}), tmp_path / "t" / "x.parquet")
    table.commit(1, {"add": {**table.first, "size": (tmp_path / "t" / "x.parquet").stat().st_size}})
    assert table.rows(columns=["v"]) == [{"v": [{"Y": [1.0, None]}, None]}, {"v": None}]


def test_rows_in_list_views_are_refused_by_name(tmp_path: Path) -> None:
    """pyarrow 26 cannot cast them to lists: it says that their offsets are too few."""
    with pytest.raises(SchemaMismatch, match=r"type list_view.*cast or drop it"):
        rowlock.append(str(tmp_path / "t"), pa.table({"a": pa.array([[1], None], pa.list_view(pa.int64()))}))


def test_json_is_text(tmp_path: Path) -> None:
    """DuckDB marks columns of its type JSON so; Spark reads text."""
    table = Made(tmp_path / "t", column("a", "string"))
    pq.write_table(pa.table({"a": pa.array(['{"b": 1}', None], pa.json_())}), tmp_path / "t" / "x.parquet", store_schema=False)
    table.commit(1, {"add": {**table.first, "size": (tmp_path / "t" / "x.parquet").stat().st_size}})
    assert table.rows() == [{"a": '{"b": 1}'}, {"a": None}]
