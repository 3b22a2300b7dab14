"""Clustering columns of a table, and which of its files lie in their order.

The columns stand in the domain `delta.clustering`, by the names that data files know them by; a file that
was written in order says so by `clusteringProvider`.  For which columns it was ordered, a tag says: ours by
the names in data files, delta-spark's by the table's own names, with back quotes where a name needs them.
Where the table's columns have changed since, it is a file like any other.  Clause "Clustered Table" of the
protocol.  Pure.
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
_THEIR_TAG = "ZCUBE_ZORDER_BY"
"""What delta-spark says of the order."""
_CUBE_TAG = "ZCUBE_ID"
_COLUMNS = "clusteringColumns"


def clustering_domain(columns: Sequence[ColumnPath]) -> DomainMetadata:
    """The domain that records clustering columns, given by their names in data files."""
    return DomainMetadata(DOMAIN, orjson.dumps({_COLUMNS: [list(c) for c in columns], "domainName": DOMAIN}).decode(), False)


def stored_columns(domains: Mapping[str, DomainMetadata], table: str | None = None) -> tuple[ColumnPath, ...]:
    """The clustering columns by their names in data files; empty for a table that is not clustered.  Raises CorruptLog."""
    found = domains.get(DOMAIN)
    if found is None:
        return ()
    try:
        return tuple(tuple(str(part) for part in column) for column in orjson.loads(found.configuration)[_COLUMNS])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptLog(f"the domain {DOMAIN} does not say its {_COLUMNS}: {found.configuration!r}", table=table) from e


def logical_columns(domains: Mapping[str, DomainMetadata], schema: StructType, table: str | None = None) -> tuple[ColumnPath, ...]:
    """The same by the table's own names; a column that is no more is left out."""
    names = {physical: path for path, _ in schema.leaves() if (physical := schema.physical_path(path)) is not None}
    plain = {path: path for path, _ in schema.leaves()}
    return tuple(path for c in stored_columns(domains, table) if (path := names.get(c) or plain.get(c)) is not None)


def marked(add: AddFile, columns: Sequence[ColumnPath]) -> AddFile:
    """A file whose rows lie in the order of these columns (by their names in data files)."""
    return replace(add, clustering_provider=PROVIDER, tags={**(add.tags or {}), COLUMNS_TAG: _tag(columns)})


def is_clustered(add: AddFile, stored: Sequence[ColumnPath], logical: Sequence[ColumnPath]) -> bool:
    """Whether a file's rows lie in the order of these columns, given by their names in data files and by the table's own.

    Where the file does not say of which columns, that they lie in some order is enough.
    """
    tags = add.tags or {}
    if add.clustering_provider != PROVIDER:
        return False
    if COLUMNS_TAG in tags:
        return tags[COLUMNS_TAG] == _tag(stored)
    return _THEIR_TAG not in tags or _their_names(tags[_THEIR_TAG]) == [".".join(c) for c in logical]


def cube_of(add: AddFile, names: Sequence[str]) -> str | None:
    """The group of files that delta-spark clustered together by these columns (the table's own names, with dots), where it did; ours are in none."""
    tags = add.tags or {}
    return tags.get(_CUBE_TAG) if _their_names(tags.get(_THEIR_TAG, "")) == list(names) else None


def _their_names(tag: str) -> list[str] | None:
    """The columns of a tag of delta-spark's, with dots and without back quotes; None where it does not read."""
    try:
        found = orjson.loads(tag)
    except ValueError:
        return None
    return [".".join(column_path(name)) for name in found] if isinstance(found, list) and all(isinstance(n, str) for n in found) else None


def _tag(columns: Sequence[ColumnPath]) -> str:
    return orjson.dumps([list(c) for c in columns]).decode()
