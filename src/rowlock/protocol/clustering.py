"""Clustering columns of a table, and which of its files are sorted by them.

The metadata domain `delta.clustering` lists the columns by physical name.  A clustered file has a `clusteringProvider` and tags:

    ZCUBE_ID, ZCUBE_ZORDER_BY, ZCUBE_ZORDER_CURVE   delta-spark's: the cube that the file belongs to, the columns that it was
                                                    sorted by (logical names, back-quoted where needed), and the curve
    rowlock.clusteredBy                             the columns by physical name, which a RENAME COLUMN leaves as they are
    rowlock.clusteringRun                           the OPTIMIZE that sorted the file together with others

delta-spark rewrites whatever lies in more than one small cube.  So files that OPTIMIZE adds to a table later join the cube
that is there, and only the run identifies the files that were sorted together.  Clause "Clustered Table" of the protocol.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import orjson

from rowlock.exceptions import CorruptLog
from rowlock.protocol.actions import AddFile, DomainMetadata
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import ColumnPath, DataType, DecimalType, PrimitiveType, StructType, column_name, column_path
from rowlock.protocol.statistics import indexed_leaves

DOMAIN = "delta.clustering"
PROVIDER = "liquid"
COLUMNS_TAG = "rowlock.clusteredBy"
RUN_TAG = "rowlock.clusteringRun"
MOST_CURVE_COLUMNS = 4
"""With more columns than these the order is the Z-order: a Hilbert curve's table grows with the square of 2^columns."""
_CUBE_TAG, _CUBE_COLUMNS_TAG, _CURVE_TAG = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
_COLUMNS = "clusteringColumns"
_KEY_TYPES = frozenset({"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"})
Curve = Literal["hilbert", "zorder"]
State = Literal["unclustered", "clustered", "otherwise"]
"""How a file lies: in no order, in that of the table's clustering columns, or in another, by columns or by an engine that are no longer the table's."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """The marks that an OPTIMIZE gives to the files that it sorted together.

    stored, logical  the clustering columns by physical and by logical names
    cube, run        ids; see the module
    """

    stored: tuple[ColumnPath, ...]
    logical: tuple[ColumnPath, ...]
    cube: str
    run: str

    @property
    def curve(self) -> Curve:
        """The curve along which rows are sorted.  One column is sorted by its values, which delta-spark, too, calls a Z-order."""
        return "hilbert" if 1 < len(self.logical) <= MOST_CURVE_COLUMNS else "zorder"


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


def is_key_type(type_: DataType | None) -> bool:
    """Whether a table can be clustered by columns of this type: those by whose bounds delta-spark, too, skips files."""
    return isinstance(type_, DecimalType) or (isinstance(type_, PrimitiveType) and type_.name in _KEY_TYPES)


def possible_keys(schema: StructType, properties: TableProperties, partition_columns: Sequence[str] = ()) -> list[ColumnPath]:
    """The columns by which a table could be clustered, by logical name: those with statistics that have an order, without partition columns."""
    leaves = indexed_leaves(schema, num_indexed=properties.num_indexed_columns, stats_columns=properties.stats_columns, partition_columns=partition_columns)
    with_stats = {path for path, _ in leaves}
    return [path for path, leaf in schema.leaves() if schema.physical_path(path) in with_stats and is_key_type(leaf.type)]


def with_clustering(add: AddFile, clustering: Clustering) -> AddFile:
    """The `add` marked as clustered, for Rowlock and for delta-spark."""
    tags = {
        COLUMNS_TAG: _tag(clustering.stored),
        RUN_TAG: clustering.run,
        _CUBE_TAG: clustering.cube,
        _CUBE_COLUMNS_TAG: orjson.dumps([column_name(c) for c in clustering.logical]).decode(),
        _CURVE_TAG: clustering.curve,
    }
    return replace(add, clustering_provider=PROVIDER, tags={**(add.tags or {}), **tags})


def state_of_file(add: AddFile, stored: Sequence[ColumnPath], logical: Sequence[ColumnPath]) -> State:
    """How a file of a table with these clustering columns lies, given by physical (`stored`) and by logical names.

    A clustered file that does not name its columns counts as clustered by these; one whose tag cannot be read, as not clustered.
    """
    tags = add.tags or {}
    if add.clustering_provider is None:
        return "unclustered"
    if add.clustering_provider != PROVIDER:
        return "otherwise"
    if COLUMNS_TAG in tags:
        return "clustered" if tags[COLUMNS_TAG] == _tag(stored) else "otherwise"
    if _CUBE_COLUMNS_TAG not in tags:
        return "clustered"
    named = _delta_spark_columns(tags[_CUBE_COLUMNS_TAG])
    return "unclustered" if named is None else "clustered" if named == _dotted(logical) else "otherwise"


def run_of(add: AddFile) -> str:
    """The id of the OPTIMIZE that sorted a clustered file together with others: Rowlock's tag, else delta-spark's cube; empty where there is neither."""
    tags = add.tags or {}
    return tags.get(RUN_TAG) or tags.get(_CUBE_TAG) or ""


def cube_of(add: AddFile, logical: Sequence[ColumnPath]) -> str | None:
    """The id of the group of files (ZCube) that belong together as clustered by these columns; None for other files."""
    tags = add.tags or {}
    return tags.get(_CUBE_TAG) if _delta_spark_columns(tags.get(_CUBE_COLUMNS_TAG, "")) == _dotted(logical) else None


def _delta_spark_columns(tag: str) -> list[str] | None:
    """The columns in a delta-spark tag, with dots and without back quotes; None if the tag cannot be parsed."""
    try:
        found = orjson.loads(tag)
    except ValueError:
        return None
    return [".".join(column_path(name)) for name in found] if isinstance(found, list) and all(isinstance(n, str) for n in found) else None


def _tag(columns: Sequence[ColumnPath]) -> str:
    return orjson.dumps([list(c) for c in columns]).decode()


def _dotted(columns: Sequence[ColumnPath]) -> list[str]:
    return [".".join(c) for c in columns]
