"""Clustering columns in the log: written, read, and told apart by the files that say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowlock.exceptions import CorruptLog
from rowlock.protocol.actions import AddFile, DomainMetadata
from rowlock.protocol.clustering import DOMAIN, Clustering, clustering_domain, cube_of, logical_columns, run_of, state_of_file, stored_columns, with_clustering
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


def test_how_files_lie() -> None:
    col_1, col_2, day, x = (("col-1",),), (("col-2", "col-3"),), (("day",),), (("s", "x"),)
    ours = with_clustering(FILE, Clustering(col_1, day, "cube", "run"))
    assert state_of_file(FILE, col_1, day) == "unclustered"
    assert state_of_file(ours, col_1, day) == "clustered" and state_of_file(ours, col_2, x) == "otherwise"
    assert state_of_file(ours, col_1, [("renamed",)]) == "clustered", "the name of a column is not the column"
    assert state_of_file(replace(FILE, clustering_provider="liquid"), col_1, day) == "clustered"
    assert state_of_file(replace(FILE, clustering_provider="other"), col_1, day) == "otherwise"


def test_what_a_file_says_of_its_order() -> None:
    two = Clustering((("a",), ("b",)), (("a b",), ("s", "1`x")), "cube", "run")
    marked = with_clustering(replace(FILE, tags={"kept": "1"}), two)
    assert marked.tags == {
        "kept": "1", "rowlock.clusteredBy": '[["a"],["b"]]', "rowlock.clusteringRun": "run",
        "ZCUBE_ID": "cube", "ZCUBE_ZORDER_BY": '["`a b`","s.`1``x`"]', "ZCUBE_ZORDER_CURVE": "hilbert",
    }  # fmt: skip
    assert run_of(marked) == "run" and run_of(replace(FILE, tags={"ZCUBE_ID": "theirs"})) == "theirs" and run_of(FILE) == ""
    assert cube_of(marked, [("a b",), ("s", "1`x")]) == "cube"
    assert replace(two, logical=(("a",),)).curve == "zorder" == replace(two, logical=tuple((c,) for c in "abcde")).curve


@pytest.mark.parametrize(("tag", "logical"), [('["day"]', [("day",)]), ('["s.x","day"]', [("s", "x"), ("day",)]), ('["`a b`.`c``d`"]', [("a b", "c`d")])])
def test_delta_spark_says_the_order_by_the_tables_own_names(tag: str, logical: list[tuple[str, ...]]) -> None:
    """As ZCubeInfo has it, whose columns are FieldReferences: physical names stand in the domain only."""
    stored = [(f"col-{n}",) for n in range(len(logical))]
    theirs = replace(FILE, tags={"ZCUBE_ZORDER_BY": tag, "ZCUBE_ID": "cube"}, clustering_provider="liquid")
    assert state_of_file(theirs, stored, logical) == "clustered" and cube_of(theirs, logical) == "cube"
    assert state_of_file(theirs, logical, stored) == "otherwise" and cube_of(theirs, [("other",)]) is None


@pytest.mark.parametrize("tag", ["", "rubbish", "null", "[1]", '{"day":1}'])
def test_a_tag_that_does_not_read_is_no_order(tag: str) -> None:
    theirs = replace(FILE, tags={"ZCUBE_ZORDER_BY": tag, "ZCUBE_ID": "cube"}, clustering_provider="liquid")
    assert state_of_file(theirs, [("day",)], [("day",)]) == "unclustered" and cube_of(theirs, [("day",)]) is None and cube_of(FILE, []) is None


@pytest.mark.parametrize(
    ("text", "size"), [("104857600", 100 << 20), ("100mb", 100 << 20), ("2 KB", 2048), ("1g", 1 << 30), ("0", 1 << 30), ("large", 1 << 30), ("", 1 << 30)]
)
def test_the_size_that_files_are_to_have(text: str, size: int) -> None:
    assert TableProperties({"delta.targetFileSize": text}).target_file_bytes == size
