"""Clustering columns of a table, and which of its files are sorted by them.

The metadata domain `delta.clustering` lists the columns by physical name.  A clustered file has a
`clusteringProvider`, and a tag that names the columns it was sorted by: Rowlock's tag has physical names,
delta-spark's has logical names, back-quoted if needed.  A file that was sorted by other columns than the
table's current ones counts as not clustered.  Clause "Clustered Table" of the protocol.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from rowlock.exceptions import CorruptLog
from rowlock.protocol.actions import AddFile, DomainMetadata
from rowlock.protocol.schema import ColumnPath, StructType, column_path

DOMAIN = "delta.clustering"
PROVIDER = "liquid"
COLUMNS_TAG = "rowlock.clusteredBy"
_DELTA_SPARK_TAG = "ZCUBE_ZORDER_BY"
"""delta-spark's tag for the columns that a file was sorted by."""
_CUBE_TAG = "ZCUBE_ID"
_COLUMNS = "clusteringColumns"


def clustering_domain(columns: Sequence[ColumnPath]) -> DomainMetadata:
    """The metadata domain that records clustering columns, given by physical name."""
    return DomainMetadata(DOMAIN, orjson.dumps({_COLUMNS: [list(c) for c in columns], "domainName": DOMAIN}).decode(), False)


def stored_columns(domains: Mapping[str, DomainMetadata], table: str | None = None) -> tuple[ColumnPath, ...]:
    """The clustering columns by physical name; empty if the table is not clustered.  Raises CorruptLog."""
    found = domains.get(DOMAIN)
    if found is None:
        return ()
    try:
        return tuple(tuple(str(part) for part in column) for column in orjson.loads(found.configuration)[_COLUMNS])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptLog(f"the metadata domain {DOMAIN} has no readable {_COLUMNS}: {found.configuration!r}", table=table) from e


def logical_columns(domains: Mapping[str, DomainMetadata], schema: StructType, table: str | None = None) -> tuple[ColumnPath, ...]:
    """The clustering columns by logical name; dropped columns are left out."""
    names = {physical: path for path, _ in schema.leaves() if (physical := schema.physical_path(path)) is not None}
    plain = {path: path for path, _ in schema.leaves()}
    return tuple(path for c in stored_columns(domains, table) if (path := names.get(c) or plain.get(c)) is not None)


def with_clustering(add: AddFile, columns: Sequence[ColumnPath]) -> AddFile:
    """The `add` marked as clustered by these columns (physical names)."""
    return replace(add, clustering_provider=PROVIDER, tags={**(add.tags or {}), COLUMNS_TAG: _tag(columns)})


def is_clustered(add: AddFile, stored: Sequence[ColumnPath], logical: Sequence[ColumnPath]) -> bool:
    """Whether a file is clustered by these columns, given by physical (`stored`) and by logical names.

    A clustered file that does not name its columns counts as clustered.
    """
    tags = add.tags or {}
    if add.clustering_provider != PROVIDER:
        return False
    if COLUMNS_TAG in tags:
        return tags[COLUMNS_TAG] == _tag(stored)
    return _DELTA_SPARK_TAG not in tags or _delta_spark_columns(tags[_DELTA_SPARK_TAG]) == [".".join(c) for c in logical]


def cube_of(add: AddFile, names: Sequence[str]) -> str | None:
    """The id of the group of files (ZCube) that delta-spark clustered together by these columns; None for other files.

    `names` are logical names with dots.  Files clustered by Rowlock have no such id.
    """
    tags = add.tags or {}
    return tags.get(_CUBE_TAG) if _delta_spark_columns(tags.get(_DELTA_SPARK_TAG, "")) == list(names) else None


def _delta_spark_columns(tag: str) -> list[str] | None:
    """The columns in a delta-spark tag, with dots and without back quotes; None if the tag cannot be parsed."""
    try:
        found = orjson.loads(tag)
    except ValueError:
        return None
    return [".".join(column_path(name)) for name in found] if isinstance(found, list) and all(isinstance(n, str) for n in found) else None


def _tag(columns: Sequence[ColumnPath]) -> str:
    return orjson.dumps([list(c) for c in columns]).decode()
