"""`check`: each kind of harm is found and named for what it is, and a table without harm is left in peace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

import rowlock
from rowlock.api.append import opened
from rowlock.exceptions import TableNotFound
from rowlock.maintenance.check.commits import Arbitration, MovedRows, SeenCommit, SeenEntry, arbiter_findings, engine_of, writer_findings
from rowlock.maintenance.check.finding import Finding, Report, by_weight, spans
from rowlock.maintenance.check.run import check
from rowlock.protocol import deletion_vector as dv
from rowlock.protocol.actions import AddFile, Commit, CommitInfo, DeletionVectorDescriptor
from rowlock.protocol.deletion_vector import inline, on_disk, pack_vectors
from rowlock.protocol.names import checkpoint_key, checksum_key, commit_key
from rowlock.protocol.schema import PrimitiveType, StructField, StructType
from rowlock.storage import LocalStore
from rowlock.transaction.definition.clone import shallow_clone

NOW = 1_700_000_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Six commits by delta-rs, a checkpoint at version 3, six files."""
    path = tmp_path / "table"
    for n in range(6):
        write_deltalake(str(path), pa.table({"id": [n * 10 + i for i in range(5)]}), mode="append")
        if n == 3:
            DeltaTable(str(path)).create_checkpoint()
    return path


def found(report: Report | list[Finding]) -> dict[str, Finding]:
    findings = report.findings if isinstance(report, Report) else report
    assert len({f.code for f in findings}) == len(findings)
    return {f.code: f for f in findings}


def actions(path: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / commit_key(version)).read_text().splitlines()]


def rewrite(path: Path, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    lines = actions(path, version)
    for line in lines:
        change(line)
    (path / commit_key(version)).write_text("\n".join(map(json.dumps, lines)))


def data_file(path: Path, version: int) -> Path:
    return path / next(line["add"]["path"] for line in actions(path, version) if "add" in line)


def test_nothing_is_wrong(table: Path) -> None:
    report = check(LocalStore(table))
    assert report.findings == () and report.is_sound and report.version == 5
    assert report.looked_at == {"commits": 6, "checkpoints": 1, "live files": 6, "files": 6, "vector files": 0, "vectors": 0, "footers": 6}
    assert {n.engine: n.verdict for n in report.neighbours} == {"delta-spark": "alone", "delta-rs 1.6": "yes"}


def test_how_much_is_looked_at_is_bounded(table: Path) -> None:
    report = check(LocalStore(table), commits=2, files=3, footers=1)
    assert report.looked_at == {"commits": 2, "checkpoints": 1, "live files": 6, "files": 3, "vector files": 0, "vectors": 0, "footers": 1}


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        check(LocalStore(tmp_path))


def test_a_gap_after_the_checkpoint_is_damage(table: Path) -> None:
    os.remove(table / commit_key(4))
    report = check(LocalStore(table))
    finding = found(report)["gap-in-log"]
    assert (finding.level, finding.versions, finding.files) == ("damage", (4,), (commit_key(4),))
    assert list(found(report)) == ["gap-in-log"] and report.version is None and not report.is_sound


def test_a_gap_before_it_is_not(table: Path) -> None:
    os.remove(table / commit_key(1))
    report = check(LocalStore(table))
    assert found(report)["gap-in-history"].versions == (1,) and report.is_sound and report.version == 5


def test_what_clean_up_took_is_no_gap(table: Path) -> None:
    for v in range(3):
        os.remove(table / commit_key(v))
    assert check(LocalStore(table)).findings == ()


def test_checkpoints_and_the_hint(table: Path) -> None:
    (table / "_delta_log" / "00000000000000000004.checkpoint.0000000001.0000000002.parquet").write_bytes(b"PAR1")
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version": 4, "size": 9}')
    report = check(LocalStore(table))
    assert {code: f.versions for code, f in found(report).items()} == {"checkpoint-not-whole": (4,), "hint-leads-nowhere": (4,)}
    assert report.is_sound and report.version == 5
    (table / checkpoint_key(3)).write_bytes(b"")
    assert found(check(LocalStore(table)))["checkpoint-not-whole"].versions == (3, 4)


def test_a_commit_that_does_not_read(table: Path) -> None:
    for v in (4, 5):
        (table / commit_key(v)).write_text('{"add": {')
    report = check(LocalStore(table))
    assert list(found(report)) == ["commit-does-not-read"] and found(report)["commit-does-not-read"].versions == (4, 5) and report.version is None


def test_files_that_are_gone_or_cut(table: Path) -> None:
    gone, cut = data_file(table, 1), data_file(table, 4)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    report = check(LocalStore(table))
    assert {code: len(f.files) for code, f in found(report).items()} == {"file-missing": 1, "file-of-another-size": 1}
    assert found(report)["file-missing"].files == (gone.name,) and not report.is_sound


def test_statistics_that_lie(table: Path) -> None:
    def lie(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["stats"] = action["add"]["stats"].replace('"numRecords":5', '"numRecords":4')

    rewrite(table, 5, lie)
    report = check(LocalStore(table))
    assert "5 rows, its statistics say 4" in found(report)["statistics-lie"].text and list(found(report)) == ["statistics-lie"]
    garbage = data_file(table, 4)
    garbage.write_bytes(b"x" * garbage.stat().st_size)
    assert "cannot be read" in found(check(LocalStore(table)))["statistics-lie"].text


def with_vector(table: Path, dead: list[int], *, stored: bool, cardinality: int | None = None) -> Path:
    """Version 6 gives the file of version 5 a deletion vector; where its file is."""
    bitmap, name = BitMap64(dead), uuid4()
    body, places = pack_vectors([bitmap])
    descriptor = on_disk(name, places[0], len(bitmap)) if stored else inline(bitmap, limit_bytes=1024)
    assert descriptor is not None
    place = table / dv.file_path(name)
    if stored:
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(body)
    add = next(line["add"] for line in actions(table, 5) if "add" in line)
    vector = {
        "storageType": descriptor.storage_type,
        "pathOrInlineDv": descriptor.path_or_inline_dv,
        "sizeInBytes": descriptor.size_bytes,
        "cardinality": cardinality or len(bitmap),
    }
    if descriptor.offset is not None:
        vector["offset"] = descriptor.offset
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    (table / commit_key(6)).write_text("\n".join(map(json.dumps, [{"protocol": protocol}, {"remove": remove}, {"add": add | {"deletionVector": vector}}])))
    return place


@pytest.mark.parametrize("stored", [False, True])
def test_vectors_that_read(table: Path, stored: bool) -> None:
    with_vector(table, [0, 3], stored=stored)
    report = check(LocalStore(table))
    assert [f.code for f in report.findings] == ([] if stored else ["vectors-in-log"]), "delta-spark's VACUUM fails on those in the log"
    assert report.is_sound and report.looked_at["vectors"] == 1 and report.looked_at["vector files"] == int(stored)


def test_vectors_that_are_gone_or_damaged(table: Path) -> None:
    place = with_vector(table, [0, 3], stored=True)
    data = place.read_bytes()
    place.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert list(found(check(LocalStore(table)))) == ["vector-damaged"]
    place.unlink()
    assert list(found(check(LocalStore(table)))) == ["vector-missing"]


def test_a_vector_that_marks_more_rows_than_there_are(table: Path) -> None:
    with_vector(table, [0, 1, 2, 3, 4, 5, 6], stored=False)
    assert "its deletion vector marks 7" in found(check(LocalStore(table)))["statistics-lie"].text


def test_a_file_that_lives_twice(table: Path) -> None:
    """A remove that names no vector where there is one cancels nothing: delta-rs, delta-spark and DuckDB then give the rows twice."""
    with_vector(table, [0], stored=False)
    add = next(line["add"] for line in actions(table, 6) if "add" in line)
    more = inline(BitMap64([0, 1]), limit_bytes=1024)
    assert more is not None
    old, new = add["deletionVector"], {"storageType": "i", "pathOrInlineDv": more.path_or_inline_dv, "sizeInBytes": more.size_bytes, "cardinality": 2}
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True, "deletionVector": old}

    def commit(*lines: dict[str, Any]) -> Report:
        (table / commit_key(7)).write_text("\n".join(map(json.dumps, lines)))
        return check(LocalStore(table))

    assert {f.level for f in commit({"remove": remove}, {"add": add | {"deletionVector": new}}).findings} <= {"note"}
    report = commit({"remove": {k: v for k, v in remove.items() if k != "deletionVector"}}, {"add": add | {"deletionVector": new}})
    assert [(f.code, f.level, f.versions, f.files) for f in report.findings if f.level != "note"] == [("file-lives-twice", "damage", (7,), (add["path"],))]
    assert {f.level for f in commit({"add": {**add, "dataChange": False}}).findings} <= {"note"}, "added again as it is"
    assert "file-lives-twice" in found(commit({"add": add | {"deletionVector": new}}))
    assert commit({"remove": remove}).findings == ()


def test_unknown_features_are_named(table: Path) -> None:
    (table / commit_key(6)).write_text(
        json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["futureThing"], "writerFeatures": ["futureThing"]}})
    )
    report = check(LocalStore(table))
    assert "futureThing" in found(report)["cannot-be-read-here"].text and report.is_sound and report.version is None
    (table / commit_key(6)).write_text(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["futureThing"]}}))
    report = check(LocalStore(table))
    assert "futureThing" in found(report)["cannot-be-written-here"].text and report.version == 6
    assert "futureThing" in next(n for n in report.neighbours if n.engine.startswith("delta-rs")).why


def test_a_version_that_was_committed_twice(table: Path) -> None:
    """delta-spark's checksum names the transaction that its writer committed."""
    rewrite(table, 5, lambda line: line.get("commitInfo", {}).update(txnId="b", engineInfo="Apache-Spark/4.2.0 Delta-Lake/4.4.0"))
    (table / checksum_key(5)).write_text('{"txnId": "b"}')
    assert list(found(check(LocalStore(table)))) == ["delta-spark-on-local-disk"]
    (table / checksum_key(5)).write_text('{"txnId": "a"}')
    report = check(LocalStore(table))
    assert found(report)["version-committed-twice"].versions == (5,) and not report.is_sound
    assert [f.level for f in report.findings] == ["danger", "suspicion"]
    for unclear in ("not json", "{}", "[]", '{"txnId": 5}'):
        (table / checksum_key(5)).write_text(unclear)
        assert check(LocalStore(table)).is_sound


# ---- what is judged, without a table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "name"), [
    ({"engineInfo": "Rowlock/0.1.0"}, "Rowlock"),
    ({"engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0"}, "delta-spark"),
    ({"engineInfo": "Databricks-Runtime/15.4.x-scala2.12"}, "Databricks"),
    ({"engineInfo": "delta-rs:py-1.6.6", "clientVersion": "delta-rs.py-1.6.6"}, "delta-rs"),
    ({"clientVersion": "delta-rs.0.17.0"}, "delta-rs"),
    ({"engineInfo": "Something/7"}, "Something/7"),
    ({"engineInfo": 7}, "an unnamed engine"),
    ({}, "an unnamed engine"),
])  # fmt: skip
def test_engines(said: dict[str, Any], name: str) -> None:
    assert engine_of(CommitInfo(said)) == name and engine_of(None) == "an unnamed engine"


def test_delta_spark_beside_others() -> None:
    mixed = [SeenCommit(0, "delta-spark"), SeenCommit(1, "Rowlock"), SeenCommit(2, "delta-spark")]
    assert found(writer_findings(mixed, "/lake/t", arbitrated=False))["delta-spark-on-local-disk"].versions == (0, 2)
    assert found(writer_findings(mixed, "s3://b/t", arbitrated=False))["delta-spark-without-arbiter"].level == "suspicion"
    assert not writer_findings(mixed, "s3://b/t", arbitrated=True) and not writer_findings(mixed, "gs://b/t", arbitrated=False)
    assert not writer_findings(mixed[:1], "/lake/t", arbitrated=False) and not writer_findings(mixed[1:2], "/lake/t", arbitrated=False)


COMMITS = [SeenCommit(v, "Rowlock" if v % 2 else "delta-spark") for v in range(6)]


def entry(*, complete: bool = True, expires: int | None = NOW + 3600, file: bool | None = True, there: bool = True) -> SeenEntry:
    return SeenEntry(complete, expires if complete else None, file, there)


def judged(entries: dict[int, SeenEntry], other: dict[int, SeenEntry] | None = None) -> dict[str, Finding]:
    return found(arbiter_findings(COMMITS, Arbitration(True, {"s3a://b/t": entries, "s3://b/t": other or {}}), NOW))


def test_one_arbiter_is_no_finding() -> None:
    assert judged({v: entry() for v in range(6)}) == {}
    assert judged({v: entry(there=False) for v in range(3, 6)}) == {}, "set up later, or the older ones have expired"
    assert judged({}) == {} and not arbiter_findings(COMMITS, Arbitration(False), NOW)


def test_a_commit_without_an_entry_is_a_suspicion_only_between_living_ones() -> None:
    finding = judged({v: entry() for v in (1, 2, 4, 5)})["committed-past-arbiter"]
    assert (finding.level, finding.versions) == ("suspicion", (3,)) and "(by Rowlock)" in finding.text
    assert judged({v: entry() for v in (1, 2, 3)})["committed-past-arbiter"].versions == (4, 5)
    expired = {1: entry(expires=NOW - 1), 2: entry(expires=NOW)}
    assert judged(expired | {4: entry(), 5: entry()}) == {}, "entries that have expired go in any order"


def test_a_file_past_its_entry_is_certain() -> None:
    finding = judged({v: entry(file=v != 4) for v in range(6)})["claimed-version-holds-another-commit"]
    assert (finding.level, finding.versions) == ("danger", (4,))


def test_two_names() -> None:
    both = {v: entry() for v in range(6)}
    assert judged(both, {5: entry()})["two-names-in-arbiter"].versions == (5,)
    assert judged({v: entry() for v in range(4)}, {v: entry() for v in (4, 5)})["two-names-in-arbiter"].level == "danger"
    moved = judged({v: entry(expires=NOW - 9) for v in range(4)}, {v: entry() for v in (4, 5)})
    assert moved["two-names-in-arbiter"].level == "suspicion"


def test_unfinished_commits() -> None:
    rest = {v: entry() for v in range(5)}
    assert judged(rest | {5: entry(complete=False)})["commit-to-be-finished"].level == "note"
    assert judged(rest | {5: entry(complete=False, file=None)})["commit-to-be-finished"].versions == (5,)
    assert judged(rest | {5: entry(complete=False, file=None, there=False)})["claimed-bytes-gone"].level == "damage"


def test_traces_of_an_arbiter_that_is_not_set() -> None:
    assert (
        found(arbiter_findings(COMMITS, Arbitration(False, temporaries=frozenset({1, 2, 3, 9})), NOW))["arbiter-not-set"].text.count("versions 1 to 3, 9") == 1
    )


def test_texts() -> None:
    assert spans([3]) == "version 3" and spans([4, 1, 2, 2]) == "versions 1 to 2, 4" and spans([1, 2]) == "versions 1 to 2"
    assert spans(range(0, 100, 2)).endswith("and 30 more places")
    weights = by_weight([Finding("note", "a", ""), Finding("damage", "b", ""), Finding("suspicion", "c", ""), Finding("danger", "d", "")])
    assert [f.code for f in weights] == ["b", "d", "c", "a"]


Files = dict[str, list[int]] | dict[None, list[int]]


def moved(before: Files, after: Files, *, data_change: bool = False, p: str = "timestamp", as_removed: dict[str, str | None] | None = None) -> list[Finding]:
    """What is found of a table in which version 1 puts rows of some partitions, by numbers of rows a file, into others; `as_removed`: values in its removes."""
    schema = StructType((StructField("p", PrimitiveType(p)), StructField("id", PrimitiveType("long"))))
    first = [AddFile(f"a{v}{n}", {"p": v}, 1, 0, True, f'{{"numRecords":{rows}}}') for v, files in before.items() for n, rows in enumerate(files)]
    last = [AddFile(f"b{v}{n}", {"p": v}, 1, 0, data_change, f'{{"numRecords":{rows}}}') for v, files in after.items() for n, rows in enumerate(files)]
    gone = [a.removed(0, data_change) for a in first]
    seen = MovedRows()
    seen.take(Commit(0, adds=tuple(first)))
    seen.take(Commit(1, adds=tuple(last), removes=tuple(gone if as_removed is None else (replace(r, partition_values=as_removed) for r in gone))))
    return list(seen.findings(schema))


HALF_PAST_TWO, HALF_PAST_THREE = "2024-03-10T02:30:00.000000Z", "2024-03-10T03:30:00.000000Z"


def test_rows_that_a_compaction_put_into_another_partition() -> None:
    """I5: what an hour's shift of partition values leaves in the log is damage, whether the other partition was there or not."""
    for before, after in (
        ({HALF_PAST_TWO: [5]}, {HALF_PAST_THREE: [5]}),
        ({HALF_PAST_TWO: [5], HALF_PAST_THREE: [2, 2]}, {HALF_PAST_THREE: [9]}),
        ({HALF_PAST_TWO: [5, 1], HALF_PAST_THREE: [4]}, {HALF_PAST_TWO: [4], HALF_PAST_THREE: [6]}),
    ):
        (finding,) = moved(before, after)
        assert finding.code == "rows-in-another-partition" and finding.level == "damage" and finding.versions == (1,) and "2024-03-10T0" in finding.text
        assert moved(before, after, data_change=True) == []


def test_rows_that_stay_in_their_partition() -> None:
    """I9: no harm is told of compactions, of another spelling of the same value, or where values or numbers are not known."""
    assert moved({HALF_PAST_TWO: [5, 1], HALF_PAST_THREE: [4]}, {HALF_PAST_THREE: [4], HALF_PAST_TWO: [3, 3]}) == []
    assert moved({"1e-05": [5], "0.5": [1]}, {"1.0E-5": [5], "0.50": [1]}, p="double") == []
    assert moved({"2024-03-10 02:30:00": [5]}, {"2024-03-10T06:30:00.000000Z": [5]}) == []
    assert moved({None: [5]}, {None: [2, 3]}) == moved({None: [5]}, {None: [5]}, as_removed={}) == []
    dead = replace(AddFile("a", {"p": HALF_PAST_TWO}, 1, 0, True, '{"numRecords":2}'), deletion_vector=DeletionVectorDescriptor("u", "x", 0, 1, 2))
    other = AddFile("b", {"p": HALF_PAST_THREE}, 1, 0, True, None)
    seen = MovedRows()
    seen.take(Commit(0, adds=(dead, other)))
    seen.take(Commit(1, adds=(replace(other, path="c", data_change=False),), removes=(dead.removed(0, False), other.removed(0, False))))
    assert list(seen.findings(StructType((StructField("p", PrimitiveType("timestamp")),)))) == []


def cloned(table: Path, target: Path) -> Path:
    """A shallow clone of the table."""
    source = opened(str(table)).refresh()
    shallow_clone(source, opened(str(target)), {}, name="it", replaces=False, count=lambda file: file.num_records or 0)
    return target


def test_files_outside_of_the_table_are_looked_at(table: Path, tmp_path: Path) -> None:
    """Those that a shallow clone names by their whole path: whether they are there, their size, and their footers."""
    target = cloned(table, tmp_path / "clone")
    report = check(LocalStore(target))
    assert report.findings == () and report.looked_at["files"] == report.looked_at["footers"] == 6
    gone, cut = data_file(table, 1), data_file(table, 4)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    report = check(LocalStore(target))
    assert {code: f.files for code, f in found(report).items()} == {"file-missing": (str(gone),), "file-of-another-size": (str(cut),)}


def test_files_that_cannot_be_looked_at_are_named(table: Path) -> None:
    """A file in a place that cannot be opened here is not passed over in silence."""
    rewrite(table, 5, lambda action: action.get("add", {}).update(path="hdfs://name/elsewhere/part-0.parquet"))
    finding = found(check(LocalStore(table)))["files-not-examined"]
    assert finding.level == "suspicion" and finding.files == ("hdfs://name/elsewhere/part-0.parquet",) and "hdfs" in finding.text


def test_sidecars_of_older_checkpoints(tmp_path: Path) -> None:
    """The newest checkpoint is whole; a version before it needs the older one, which lacks a sidecar."""
    path = tmp_path / "table"
    for n in range(4):
        rowlock.append(str(path), pa.table({"id": [n]}), properties={"delta.checkpointPolicy": "v2"} if not n else None)
        state = opened(str(path))
        if n in (1, 3):
            state.log.write_checkpoint(state.refresh())
    assert check(LocalStore(path)).findings == ()
    older = sorted((path / "_delta_log").glob("*.checkpoint.*.parquet"))[0]
    sidecar = pq.read_table(older).column("sidecar").combine_chunks().drop_null()[0].as_py()["path"]
    (path / "_delta_log" / "_sidecars" / sidecar).unlink()
    finding = found(check(LocalStore(path)))["sidecar-missing"]
    assert finding.versions == (1,) and finding.files == (f"_delta_log/_sidecars/{sidecar}",) and check(LocalStore(path)).version == 3
    older.write_bytes(b"PAR1")
    assert found(check(LocalStore(path)))["checkpoint-does-not-read"].versions == (1,)
