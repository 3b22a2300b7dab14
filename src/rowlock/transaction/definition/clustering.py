"""The columns that a table is clustered by: their checks for CREATE and ALTER, and ALTER TABLE ... CLUSTER BY itself.

The files stay as they lie: OPTIMIZE sorts what is written from then on by the new columns, OPTIMIZE FULL all that there is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import Metadata
from rowlock.protocol.clustering import is_key_type, possible_keys
from rowlock.protocol.features import with_feature
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import ColumnPath, StructType, column_path, type_name
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_MOST_COLUMNS = 4


def cluster_by(state: SharedState, columns: Sequence[ColumnPath]) -> Receipt:
    """Clusters a table by these columns from now on; by none where there are none.

    Raises StatementRefused on a partitioned table and for a column without statistics, InvalidInput for unknown columns, one twice and too many.
    """

    def make(head: Snapshot) -> HeadActions | None:
        if head.partition_columns:
            text = "A partitioned table cannot be clustered"
            raise StatementRefused(text, what="CLUSTER BY", table=head.table, condition=named("DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED"))
        stored = checked_columns(head.metadata, columns, head.table)
        if stored == clustering.stored_columns(head.domains, head.table):
            return None
        protocol = with_feature(head.protocol, "clustering")
        return HeadActions(protocol=protocol, domains=(clustering.clustering_domain(stored),))

    before = clustering.logical_columns((head := state.refresh()).domains, head.schema, head.table)
    parameters = {"oldClusteringColumns": _text(before), "newClusteringColumns": _text(columns)}
    return commit_from_head(state, "CLUSTER BY", parameters, make)


def _text(columns: Sequence[ColumnPath]) -> str:
    return ",".join(".".join(c) for c in columns)


def named_columns(schema: StructType, names: Sequence[str], table: str) -> list[ColumnPath]:
    """The columns of these SQL names as the schema spells them; a name with dots may also be one column's name.  Raises InvalidInput for an unknown one."""
    return [_spelled(schema, (column_path(name), (name,)), table) for name in names]


def checked_columns(metadata: Metadata, columns: Sequence[ColumnPath], table: str) -> tuple[ColumnPath, ...]:
    """The columns by their physical names.

    Raises InvalidInput for unknown columns, one twice and more than four, StatementRefused for a column without statistics or of a type without an order.
    """
    if len(columns) > _MOST_COLUMNS:
        raise InvalidInput(
            f"A table is clustered by {_MOST_COLUMNS} columns at most, not by {len(columns)}",
            table=table,
            condition=named("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", numColumnsLimit=_MOST_COLUMNS, actualNumColumns=len(columns)),
        )
    schema, properties = schemas.parse_schema(metadata.schema_string), TableProperties(metadata.configuration)
    with_stats = set(possible_keys(schema, properties))
    out: list[ColumnPath] = []
    for column in columns:
        spelled = _spelled(schema, (column,), table)
        name, path = ".".join(spelled), schema.physical_path(spelled)
        if path in out:
            raise InvalidInput(f"The clustering column {name!r} is named twice; name it once", table=table, condition=named("DELTA_DUPLICATE_COLUMNS_FOUND"))
        type_ = None if (found := schema.resolve(spelled)) is None else found.type
        if not is_key_type(type_):
            text = f"A table cannot be clustered by {name}: values of its type have no order in statistics"
            types = f"{name} : {type_name(type_, sql=True) if type_ is not None else 'unknown'}"
            condition = named("DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", columnsWithDataTypes=types)
            raise StatementRefused(text, what=name, table=table, condition=condition)
        if path is None or spelled not in with_stats:
            text = f"Column {name} has no statistics, by which files could be skipped: see delta.dataSkippingStatsColumns"
            raise StatementRefused(text, what=name, table=table, condition=named("DELTA_CLUSTERING_COLUMN_MISSING_STATS", columns=name, schema=""))
        out.append(path)
    return tuple(out)


def _spelled(schema: StructType, paths: Sequence[ColumnPath], table: str) -> ColumnPath:
    """The first of these paths that the schema has, as it spells it."""
    if (found := schema.spelled(*paths)) is not None:
        return found
    name = ".".join(paths[0])
    raise InvalidInput(
        f"There is no column {name!r} to cluster by; the table has {', '.join(schema.names)}",
        table=table,
        condition=named("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", columnName=name, tableSchema=schemas.schema_json(schema)),
    )
