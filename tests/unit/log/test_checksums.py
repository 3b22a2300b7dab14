"""Version checksums: what stands in them is what the log gives, a wrong one is named, and none of them decides anything (I9)."""

from __future__ import annotations

import warnings
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

import rowlock
from rowlock.exceptions import ChecksumWarning, InvalidInput, StorageError
from rowlock.log.checksums import checksum, differences
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.storage.open import open_store

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table that asks for checksums: version 0 and two appends, the second a step of an application."""
    place = str(tmp_path / "table")
    rowlock.append(place, ROWS, properties={"rowlock.checksums": "true", "delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"})
    rowlock.append(place, ROWS)
    rowlock.append(place, ROWS, app_id="loader", app_version=3)
    return place


def test_each_commit_has_one_of_its_version(path: str) -> None:
    log = TableLog(open_store(path))
    for version in (0, 1, 2):
        said = orjson.loads(log.store.get(names.checksum_key(version)))
        at = log.at(version)
        assert (said["numFiles"], said["tableSizeBytes"], said["txnId"]) == (version + 1, sum(f.size_bytes for f in at.files.adds()), at.txn_id)
        assert said["metadata"]["configuration"]["rowlock.checksums"] == "true" and said["protocol"]["minWriterVersion"] == 7
        assert [d["domain"] for d in said["domainMetadata"]] == ["delta.rowTracking"] and said["inCommitTimestampOpt"] == at.timestamp_ms
        assert [(t["appId"], t["version"]) for t in said["setTransactions"]] == ([("loader", 3)] if version == 2 else [])
    assert differences(checksum(log.latest()), log.latest()) == []


def test_a_table_that_does_not_ask_has_none(tmp_path: Path) -> None:
    rowlock.append(tmp_path, ROWS)
    rowlock.append(tmp_path, ROWS)
    assert not list((tmp_path / "_delta_log").glob("*.crc"))
    with pytest.raises(InvalidInput, match=r"rowlock\.checksums"):
        rowlock.append(tmp_path / "other", ROWS, properties={"rowlock.checksums": "maybe"})


WRONG = {"numFiles": 7, "tableSizeBytes": 1, "txnId": "another", "protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


@pytest.mark.parametrize("field", [*WRONG, "metadata", "no JSON", "no object"])
def test_a_wrong_one_is_named_and_the_rows_are_those_of_the_log(path: str, field: str) -> None:
    store = open_store(path)
    said = orjson.loads(store.get(names.checksum_key(2)))
    said[field] = {**said["metadata"], "partitionColumns": ["id"]} if field == "metadata" else WRONG.get(field)
    store.put(names.checksum_key(2), b"{" if field == "no JSON" else b"[]" if field == "no object" else orjson.dumps(said))
    with pytest.warns(ChecksumWarning, match=f"{names.checksum_key(2)}.*{field if field in said and not field.startswith('no ') else 'cannot be read'}"):
        assert len(TableLog(open_store(path)).latest().files) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChecksumWarning)
        assert rowlock.to_arrow(path).num_rows == 6
        assert rowlock.append(path, ROWS).version == 3
        assert differences(store.get(names.checksum_key(3)), TableLog(store).latest()) == []


def test_a_right_one_says_nothing_and_one_without_our_fields_neither(path: str) -> None:
    store = open_store(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TableLog(store).latest().version == 2
        said = orjson.loads(store.get(names.checksum_key(2)))
        store.put(
            names.checksum_key(2),
            orjson.dumps({k: said[k] for k in ("numFiles", "tableSizeBytes", "numMetadata", "numProtocol")} | {"txnId": None, "metadata": None}),
        )
        assert TableLog(store).latest().version == 2


def test_a_commit_does_not_fail_with_its_checksum(path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """I10"""

    def refused(*_: object) -> None:
        raise StorageError("full")

    monkeypatch.setattr("rowlock.log.checksums.write", refused)
    assert rowlock.append(path, ROWS).version == 3
    assert "the checksum of version 3" in caplog.text
