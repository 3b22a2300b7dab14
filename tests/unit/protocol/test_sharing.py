"""What is said of delta-rs is what it does: a table with each feature is made, and delta-rs tries to write it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rowlock.protocol.actions import Protocol
from rowlock.protocol.features import neighbours, refused_by_delta_rs

WRITERS = (
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns", "rowTracking", "domainMetadata", "icebergCompatV1",
    "icebergCompatV2", "clustering", "inCommitTimestamp", "allowColumnDefaults", "checkpointProtection", "collations", "materializePartitionColumns", "icebergWriterCompatV1",
)  # fmt: skip
READERS = (
    "columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "typeWidening", "typeWidening-preview", "variantType", "variantType-preview", "variantShredding",
    "variantShredding-preview", "vacuumProtocolCheck", "catalogManaged", "somethingNew",
)  # fmt: skip


def listing(feature: str) -> Protocol:
    if feature in READERS:
        return Protocol(3, 7, frozenset({feature}), frozenset({feature}))
    needs = {"domainMetadata"} if feature in ("rowTracking", "clustering") else set()
    return Protocol(1, 7, None, frozenset({feature} | needs))


def delta_rs_writes(protocol: Protocol, path: Path) -> bool:
    schema = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}
    said = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    said |= {
        name: sorted(features)
        for name, features in (("readerFeatures", protocol.reader_features), ("writerFeatures", protocol.writer_features))
        if features is not None
    }
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, [{"protocol": said}, {"metaData": metadata}])))
    try:
        write_deltalake(str(path), pa.table({"a": [1]}), mode="append")
    except Exception:
        return False
    return True


@pytest.mark.parametrize("feature", [*WRITERS, *READERS])
def test_delta_rs_refuses_what_we_say(feature: str, tmp_path: Path) -> None:
    protocol = listing(feature)
    assert delta_rs_writes(protocol, tmp_path) == (not refused_by_delta_rs(protocol))


@pytest.mark.parametrize("writer", range(1, 7))
def test_legacy_versions(writer: int, tmp_path: Path) -> None:
    protocol = Protocol(2 if writer >= 5 else 1, writer)
    assert delta_rs_writes(protocol, tmp_path) == (not refused_by_delta_rs(protocol))


@pytest.mark.parametrize(("root", "arbitrated", "spark", "rust"), [
    ("/lake/t", False, "alone", "yes"),
    ("file:/lake/t", False, "alone", "yes"),
    ("s3://b/t", False, "alone", "yes"),
    ("s3://b/t", True, "yes", "no"),
    ("gs://b/t", False, "yes", "yes"),
    ("az://b/t", False, "yes", "yes"),
])  # fmt: skip
def test_places(root: str, arbitrated: bool, spark: str, rust: str) -> None:
    assert [n.verdict for n in neighbours(Protocol(1, 2), root, arbitrated=arbitrated)] == [spark, rust]
    assert neighbours(listing("rowTracking"), root, arbitrated=arbitrated)[1].why == "it refuses tables with domainMetadata, rowTracking"
