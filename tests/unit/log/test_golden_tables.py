"""Tables that Spark wrote read as they should. I9: what cannot be read is named, never guessed."""

from __future__ import annotations

from urllib.parse import unquote

import deltalake
import pytest

from rowlock.exceptions import CorruptLog
from rowlock.limits import limited
from rowlock.log.table_log import TableLog
from rowlock.protocol.features import reader_features, writer_features
from rowlock.storage import open_store
from support.corpus import GOLDEN, golden_tables

READABLE = [t for t in golden_tables() if t["version"] is not None]


@pytest.mark.parametrize("table", READABLE, ids=lambda t: str(t["table"]))
def test_version_and_files(table: dict[str, object]) -> None:
    snapshot = TableLog(open_store(GOLDEN / str(table["table"]) / "delta")).latest()
    assert (snapshot.version, len(snapshot.files)) == (table["version"], table["nfiles"])
    adds = list(snapshot.files.adds())
    assert len(adds) == len(snapshot.files) and sum(a.size_bytes for a in adds) == snapshot.files.total_size_bytes
    assert snapshot.files.get(a.path for a in adds) == {a.path: a for a in adds}
    with limited(changed_files=0):  # as checkpoints of many files are read
        assert {a.path: a for a in TableLog(open_store(GOLDEN / str(table["table"]) / "delta")).latest().files.adds()} == {a.path: a for a in adds}
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (table["minReader"], table["minWriter"])
    if snapshot.protocol.min_reader_version == 3:
        assert sorted(reader_features(snapshot.protocol)) == table["readerFeatures"]
        assert sorted(writer_features(snapshot.protocol)) == table["writerFeatures"]


@pytest.mark.parametrize("table", READABLE, ids=lambda t: str(t["table"]))
def test_every_version_replays_alike_from_any_start(table: dict[str, object]) -> None:
    """A snapshot brought forward commit by commit is the one that is loaded at once."""
    log = TableLog(open_store(GOLDEN / str(table["table"]) / "delta"))
    oldest = next(at for at, _ in log.commit_times())
    before = log.at(oldest)
    for version in range(oldest, before.version):
        log.at(version)
    forward, loaded = log.latest(before), log.latest()
    assert forward.version == loaded.version
    key = {a.key for a in loaded.files.adds()}
    assert {a.key for a in forward.files.adds()} == key
    assert (forward.schema, forward.txns, forward.protocol) == (loaded.schema, loaded.txns, loaded.protocol)


@pytest.mark.parametrize("table", READABLE, ids=lambda t: str(t["table"]))
def test_deltalake_sees_the_same_files(table: dict[str, object]) -> None:
    place = GOLDEN / str(table["table"]) / "delta"
    try:
        theirs = deltalake.DeltaTable(str(place)).file_uris()
    except Exception as e:
        pytest.skip(f"deltalake does not read it: {e}")
    ours = {f"{place}/{a.path}" for a in TableLog(open_store(place)).latest().files.adds()}
    assert ours in ({unquote(u) for u in theirs}, set(theirs))


def test_a_log_without_metadata_is_named() -> None:
    with pytest.raises(CorruptLog, match="no metaData"):
        TableLog(open_store(GOLDEN / "data-reader-absolute-paths-escaped-chars" / "delta")).latest()
