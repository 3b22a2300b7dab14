"""CREATE TABLE ... LIKE: a new, empty table with the columns, the partitioning, the properties and the comment of one that is there."""

from __future__ import annotations

from typing import Any

import orjson

from rowlock.api.handle import Handle
from rowlock.api.placement import place_of
from rowlock.api.sql.target import Target
from rowlock.engines.spark.sql.nodes import FORMATS, like_of, path_of
from rowlock.protocol.clustering import logical_columns
from rowlock.protocol.column_mapping import MAX_ID
from rowlock.protocol.identity import HIGH_WATER_MARK
from rowlock.protocol.schema import TYPE_CHANGES, dotted
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.clone import OF_ONE_TABLE


def create_like(target: Target, plan: Any) -> None:
    """CREATE TABLE [IF NOT EXISTS] name LIKE source [USING delta] [LOCATION] [TBLPROPERTIES]."""
    said = like_of(target.nodes, plan)
    folder = target.nodes.folder(said.source)
    if folder is None:
        target.refuse(f"{'.'.join(said.source or ())}, which is no Delta table", "Name the columns")
    if said.provider is not None and said.provider.lower() not in FORMATS:
        target.refuse(f"USING {said.provider}", "A table like a Delta table is one: leave USING out")
    path = path_of(target.parts)
    place = place_of(target.spark, dotted(target.parts), said.location) if path is None else place_of(target.spark, None, path)
    if said.if_not_exists and (place.listed or place.has_log):
        return
    place.check("create")
    head = Handle(target.spark, str(folder)).state.refresh()
    kept = {k: v for k, v in head.metadata.configuration.items() if k not in {MAX_ID, *OF_ONE_TABLE}}
    creation.create(
        place.handle.state,
        orjson.dumps(_of_a_new_table(orjson.loads(head.metadata.schema_string))).decode(),
        head.partition_columns,
        {**kept, **said.properties},
        cluster_by=logical_columns(head.domains, head.schema, head.table),
        description=head.metadata.description,
        managed=place.managed,
    )
    place.register()


def _of_a_new_table(schema: Any) -> Any:
    """A schema as JSON without what it says of one table's files: numbers and names in them, which types columns had, and which numbers identity columns have given."""
    if isinstance(schema, list):
        return [_of_a_new_table(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _of_a_new_table(value) for key, value in schema.items() if key != "metadata"}
    if isinstance(said := schema.get("metadata"), dict):
        out["metadata"] = {k: v for k, v in said.items() if not k.startswith("delta.columnMapping.") and k not in (HIGH_WATER_MARK, TYPE_CHANGES)}
    return out
