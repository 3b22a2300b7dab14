"""Checks of the columns that a table is to be clustered by, for CREATE and for ALTER."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import Metadata
from rowlock.protocol.clustering import is_key_type, possible_keys
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import ColumnPath, StructType, column_path, type_name

_MOST_COLUMNS = 4


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
    for path in paths:
        found = [schema.resolve(path[: n + 1]) for n in range(len(path))]
        if found and found[-1] is not None:
            return tuple(f.name for f in found if f is not None)
    name = ".".join(paths[0])
    raise InvalidInput(
        f"There is no column {name!r} to cluster by; the table has {', '.join(schema.names)}",
        table=table,
        condition=named("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", columnName=name, tableSchema=schemas.schema_json(schema)),
    )
