"""Clustering columns in the log: written, read, and told apart by the files that say so."""

from __future__ import annotations

import pytest

from rowlock.exceptions import CorruptLog
from rowlock.protocol.actions import AddFile, DomainMetadata
from rowlock.protocol.clustering import DOMAIN, clustering_domain, is_clustered, logical_columns, marked, stored_columns
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import parse_schema

FILE = AddFile("a.parquet", {}, 1, 0, True, None)
MAPPED = (
    '{"type":"struct","fields":[{"name":"day","type":"date","nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-1"}},'
    '{"name":"s","type":{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-3"}}]},'
    '"nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-2"}}]}'
)


def test_columns_by_both_names() -> None:
    domains = {DOMAIN: clustering_domain([("col-1",), ("col-2", "col-3"), ("gone",)])}
    assert stored_columns(domains) == (("col-1",), ("col-2", "col-3"), ("gone",))
    assert logical_columns(domains, parse_schema(MAPPED)) == (("day",), ("s", "x"))
    assert stored_columns({}) == ()
    with pytest.raises(CorruptLog, match="clusteringColumns"):
        stored_columns({DOMAIN: DomainMetadata(DOMAIN, "{}")})


def test_which_files_lie_in_order() -> None:
    day = [("col-1",)]
    assert not is_clustered(FILE, day)
    assert is_clustered(marked(FILE, day), day) and not is_clustered(marked(FILE, day), [("col-2",)])
    theirs = AddFile("a.parquet", {}, 1, 0, True, None, tags={"ZCUBE_ZORDER_BY": '["col-1"]'}, clustering_provider="liquid")
    assert is_clustered(theirs, day) and not is_clustered(theirs, [("col-2",)])
    assert not is_clustered(AddFile("a.parquet", {}, 1, 0, True, None, clustering_provider="other"), day)


@pytest.mark.parametrize(("text", "size"), [("104857600", 100 << 20), ("100mb", 100 << 20), ("2 KB", 2048), ("1g", 1 << 30), ("0", None), ("large", None), ("", None)])
def test_the_size_that_files_are_to_have(text: str, size: int | None) -> None:
    assert TableProperties({"delta.targetFileSize": text}).target_file_bytes == size
