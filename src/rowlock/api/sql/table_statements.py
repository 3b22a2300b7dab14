"""CREATE TABLE, also AS SELECT and LIKE, REPLACE TABLE, DROP TABLE and saveAsTable, as calls of Rowlock's own API."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from typing import Any

import orjson

from rowlock.api import frames
from rowlock.api.delta_table import DeltaTable
from rowlock.api.handle import Handle
from rowlock.api.overwrites import no_table_yet
from rowlock.api.placement import Place, is_elsewhere, other_location, place_named
from rowlock.api.row_writes import Made
from rowlock.api.sql.target import Target, evolves, fitted, write_arguments
from rowlock.api.table_builder import IdentityGenerator
from rowlock.conditions import named
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst.types import DataFrame, Spec
from rowlock.engines.spark.sql.guard import Guard
from rowlock.exceptions import InvalidInput, NameNotFound, NameTaken, TableExists
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.column_mapping import MAX_ID
from rowlock.protocol.column_values import HIGH_WATER_MARK
from rowlock.protocol.paths import FORMATS, path_of
from rowlock.protocol.schema import TYPE_CHANGES, ColumnPath, column_name, dotted, schema_json
from rowlock.protocol.schema_fit import check_names
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.clone import OF_ONE_TABLE
from rowlock.transaction.state import call


def create_like(target: Target, plan: Any) -> None:
    """CREATE TABLE [IF NOT EXISTS] name LIKE source [USING delta] [LOCATION] [TBLPROPERTIES]: the source is a table of any format, or a view."""
    like = target.nodes.like_of(plan)
    if like.provider is not None and like.provider.lower() not in FORMATS:
        target.refuse(f"USING {like.provider}", "A table like a Delta table is one: leave USING out")
    place = place_named(target.spark, target.parts, like.location)
    if like.if_not_exists and (place.listed or place.has_log):
        return
    place.check("create")
    clusters: Sequence[ColumnPath] = ()
    if (folder := target.nodes.folder(like.source)) is None:
        columns, partitions, comment, properties = catalog.described(target.spark, like.source or ())
        schema_string = schema_json(columns)
    else:
        head = Handle(target.spark, str(folder)).state.refresh()
        schema_string = orjson.dumps(_of_a_new_table(orjson.loads(head.metadata.schema_string))).decode()
        partitions, clusters, comment = list(head.partition_columns), head.clustering_columns, head.metadata.description
        properties = {k: v for k, v in head.metadata.configuration.items() if k not in {MAX_ID, *OF_ONE_TABLE}}
    properties |= like.properties
    creation.create(place.handle.state, schema_string, partitions, properties, cluster_by=clusters, description=comment, managed=place.managed)
    place.register()


def _of_a_new_table(schema: Any) -> Any:
    """A schema as JSON without what it says of one table's files: numbers and names in them, which types columns had, and which numbers identity columns have given."""
    if isinstance(schema, list):
        return [_of_a_new_table(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _of_a_new_table(value) for key, value in schema.items() if key != "metadata"}
    if isinstance(metadata := schema.get("metadata"), dict):
        out["metadata"] = {k: v for k, v in metadata.items() if not k.startswith("delta.columnMapping.") and k not in (HIGH_WATER_MARK, TYPE_CHANGES)}
    return out


def create(target: Target, plan: Any) -> None:
    """CREATE TABLE [IF NOT EXISTS] (columns) USING delta."""
    _build(target, _spec(target, plan), DeltaTable.createIfNotExists(target.spark) if plan.ignoreIfExists() else DeltaTable.create(target.spark))


def replace(target: Target, plan: Any) -> None:
    """REPLACE TABLE and CREATE OR REPLACE TABLE (columns) USING delta."""
    _build(target, _spec(target, plan), DeltaTable.createOrReplace(target.spark) if plan.orCreate() else DeltaTable.replace(target.spark))


def _build(target: Target, spec: Spec, builder: Any) -> None:
    path = path_of(target.parts)
    builder = builder.tableName(dotted(target.parts)) if path is None else builder.location(path)
    if spec.location is not None:
        place_named(target.spark, target.parts, spec.location)  # raises where they are two places
        builder = builder.location(spec.location)
    for c in spec.columns:
        always: Any = c.generated
        by_default = None
        if c.identity is not None:
            generator = IdentityGenerator(*c.identity[:2])
            always, by_default = (None, generator) if c.identity[2] else (generator, None)
        builder = builder.addColumn(
            c.name, c.type_, nullable=c.nullable, generatedAlwaysAs=always, generatedByDefaultAs=by_default, comment=c.comment, default=c.default
        )
    if spec.partitions:
        builder = builder.partitionedBy(spec.partitions)
    if spec.clusters:
        builder = builder.clusterBy([column_name(c) for c in spec.clusters])
    if spec.comment is not None:
        builder = builder.comment(spec.comment)
    for key, value in spec.properties.items():
        builder = builder.property(key, value)
    builder.execute()


def _spec(target: Target, plan: Any) -> Spec:
    """What the statement says of the table.  Raises UnsupportedFeature for what Rowlock has not."""
    spec = target.nodes.spec_of(plan)
    if spec.provider.lower() not in FORMATS:
        exists = named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=dotted(target.parts[-2:])) if target.statement.startswith("CREATE") else None
        target.refuse(f"USING {spec.provider or 'another format'} in place of a Delta table", "First DROP TABLE, or choose another name", exists)
    if spec.missing is not None:
        of_table = (
            named("UNSUPPORTED_FEATURE.TABLE_OPERATION", tableName=dotted(target.parts), operation="table constraint") if "constraint" in spec.missing else None
        )
        target.refuse(f"with {spec.missing}", "Leave it out", of_table)
    if spec.location is not None and not (spec.location.startswith("/") or ":" in spec.location):
        raise InvalidInput(f"LOCATION {spec.location!r} is relative, and it is not certain to what: write the whole path")
    return spec


def create_as_select(target: Target, plan: Any) -> None:
    """CREATE TABLE ... AS SELECT: version 0 with the rows in it, and then the name."""
    spec = _spec(target, plan)
    _create_with_rows(target, spec, target.nodes.frame(plan.query()), bool(plan.ignoreIfExists()), _options(target, plan, spec), _MADE)


def replace_as_select(target: Target, plan: Any) -> None:
    """CREATE OR REPLACE TABLE ... AS SELECT and REPLACE TABLE ... AS SELECT: the table with its new rows in one commit."""
    spec = _spec(target, plan)
    place = place_named(target.spark, target.parts, spec.location)
    options = _options(target, plan, spec)
    if not place.has_log and not plan.orCreate():
        text = f"Table {'.'.join(target.parts)} cannot be found, so it cannot be replaced; use CREATE OR REPLACE TABLE"
        raise NameNotFound(text, condition=catalog.not_found(dotted(target.parts), target.parts[-2] if len(target.parts) > 1 else ""))
    rows = target.nodes.frame(plan.query())
    if not place.has_log:
        return _create_with_rows(target, spec, rows, False, options, creation.ANEW)
    place.check("createOrReplace" if plan.orCreate() else "replace")
    for name in options:
        if name not in ("app_id", "app_version", "user_metadata", "max_records_per_file", "properties", "compression", "optimize_write"):
            target.refuse(f"with the option for {name}", "Use df.write.mode('overwrite').option('overwriteSchema', 'true')")
    _make_with_rows(spec, place, rows, options, creation.ANEW if plan.orCreate() else "REPLACE TABLE AS SELECT", replaces=True)


def _options(target: Target, plan: Any, spec: Spec) -> dict[str, Any]:
    """The arguments of `rowlock.write` that the options of a statement with a query stand for; those that Spark took for properties are left out."""
    options = {k: v for k, v in target.nodes.mapping(plan.writeOptions()).items() if k.lower() not in {p.lower() for p in spec.properties}}
    given = write_arguments({**spec.options, **options}, ".".join(target.parts), replaces=False)  # the statement itself makes the table anew
    return {name: value for name, value in given.items() if name != "merge_schema"}


_MADE = "CREATE TABLE AS SELECT"


def _create_with_rows(target: Target, spec: Spec, rows: DataFrame, if_not_exists: bool, options: dict[str, Any], operation: str) -> None:
    place = place_named(target.spark, target.parts, spec.location)
    if if_not_exists and (place.listed or (place.name is None and place.has_log)):
        return
    place.check("create")
    if place.has_log:
        held = named("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", tableId=place.name, tableLocation=place.handle.path)
        raise TableExists("There is a table already; use INSERT INTO", table=place.handle.path, condition=held)
    if operation == _MADE and not place.managed:
        place.check_empty()
    if not options.get("data_change", True):
        raise no_table_yet(place.handle.path)
    _make_with_rows(spec, place, rows, options, operation)


def _make_with_rows(spec: Spec, place: Place, rows: DataFrame, options: Mapping[str, Any], operation: str, *, replaces: bool = False) -> None:
    """Makes the table of a statement with a query, and gives it its name.  Raises InvalidInput for partitions and clustering columns at once."""
    if spec.partitions and spec.clusters:
        raise InvalidInput("A table is partitioned or clustered, not both", table=place.handle.path)
    made = Made(operation, list(spec.clusters), spec.comment, bool(place.managed))
    properties = {**options.get("properties", {}), **spec.properties}
    frames.make_with_rows(place.handle, rows, made, replaces=replaces, partition_by=spec.partitions, properties=properties, options=options)
    place.register()


def save_as_table(target: Target, plan: Any) -> None:
    """`df.write.saveAsTable(name)`: makes the table, appends to it or overwrites its rows."""
    nodes, mode = target.nodes, str(plan.mode().name())
    there = target.folder is not None and (path_of(target.parts) is None or target.handle.state.log.exists())
    if there and mode == "Ignore":
        return
    if there and mode == "ErrorIfExists":
        text = f"Table {'.'.join(target.parts)} already exists; use mode('append') or mode('overwrite')"
        raise NameTaken(text, table=target.path, condition=named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=dotted(target.parts[-2:])))
    entry = plan.tableDesc()
    provider = str(nodes.option(entry.provider()) or "")
    by_default = mode == "Append" and provider == str(target.spark.conf.get("spark.sql.sources.default", "parquet"))  # an append goes by the table's own format
    if provider.lower() not in FORMATS and not by_default:
        target.refuse(f"with format {provider} on a Delta table", 'Use df.write.format("delta").saveAsTable(name), or DROP TABLE first')
    if entry.bucketSpec().isDefined():
        target.refuse("with bucketBy", "Leave bucketBy out")
    rows = nodes.frame(nodes.query(plan))
    location = nodes.option(entry.storage().locationUri())
    partitions = [str(c) for c in nodes.items(entry.partitionColumnNames())]
    clusters = nodes.option(entry.clusterBySpec())
    place = None if location is None else str(nodes.bridge.hadoop_path(location).toString())
    given = nodes.mapping(entry.storage().properties())
    comment = next((given.pop(k) for k in list(given) if k.lower() == "comment"), None) if not there else None
    options = write_arguments(given, ".".join(target.parts), replaces=mode == "Overwrite")
    keys = [] if clusters is None else [tuple(str(p) for p in c.fieldNames()) for c in nodes.items(clusters.columnNames())]
    if not there:
        spec = Spec(provider=provider, location=place, comment=comment, partitions=partitions, clusters=keys)
        return _create_with_rows(target, spec, rows, mode == "Ignore", options, creation.ANEW if mode == "Overwrite" else _MADE)
    _check_clustering(target.head, keys)
    if place is not None and mode == "Overwrite" and is_elsewhere(place, target.path):
        raise other_location(".".join(target.parts), target.path, place)
    if mode == "Overwrite":  # an append goes by Spark's INSERT, with delta-spark as well
        check_names(rows.columns, target.path, of_table=True)
    if not options.get("overwrite_schema"):
        if mode == "Overwrite":
            frames.check_partitions(target.head, rows, partitions)
        rows = fitted(target, rows, rows.columns, by_name=True, fills=True, evolving=evolves(options))
    with _told(target, partitions, options) if mode == "Overwrite" else contextlib.nullcontext():
        frames.write(rows, target.path, mode="overwrite" if mode == "Overwrite" else "append", partition_by=partitions, **options)


def _told(target: Target, partitions: Sequence[str], options: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
    """A block whose overwrite the history has as delta-spark's: as one that makes the table anew, where all rows are replaced."""
    if {"replace_where", "replace_using", "replace_on"} & options.keys():
        return contextlib.nullcontext()
    after = partitions if partitions or options.get("overwrite_schema") else target.head.partition_columns
    managed = place_named(target.spark, target.parts, None).managed
    parameters = creation.parameters_of(changed(target.head.metadata, partition_columns=tuple(after)), (), managed)
    return call.told_as(creation.ANEW, {**parameters, "isV1SaveAsTableOverwrite": "true"})


def _check_clustering(snapshot: Snapshot, cluster_by: Sequence[ColumnPath]) -> None:
    """Raises InvalidInput where a write asks for other clustering columns than the table has; asking for none is allowed."""
    given, there = ([".".join(c) for c in columns] for columns in (cluster_by, snapshot.clustering_columns))
    if given and [c.lower() for c in given] != [c.lower() for c in there]:
        text = f"The table is clustered by {', '.join(there) or 'nothing'}, not by {', '.join(given)}; leave clusterBy out, or use ALTER TABLE ... CLUSTER BY"
        mismatch = named("DELTA_CLUSTERING_COLUMNS_MISMATCH", providedClusteringColumns=",".join(given), existingClusteringColumns=",".join(there))
        raise InvalidInput(text, table=snapshot.table, condition=mismatch)


def refresh(target: Target, plan: Any) -> None:
    """REFRESH TABLE: what Spark has cached of the table is computed anew when it is asked for; all else asks the log by itself."""
    target.handle.session.refresh_cached(target.handle.state.store)


def drop(target: Target, plan: Any) -> None:
    """DROP TABLE: the name, and the folder of a managed table with it; of a path nothing, as with delta-spark, and a warning says so."""
    if (path := path_of(target.parts)) is not None:
        if Handle(target.spark, path).state.log.exists():
            warnings.warn(f"DROP TABLE of a path drops nothing, as with delta-spark: delete the folder {path} yourself", UserWarning, stacklevel=2)
        elif not plan.ifExists():
            raise NameNotFound(f"There is no table at {path} to drop; use DROP TABLE IF EXISTS", condition=catalog.not_found(dotted(target.parts), "default"))
        return
    assert target.nodes.class_name(plan) == "DropTable"
    catalog.Name(target.spark, dotted(target.parts)).drop(purge=bool(plan.purge()))


def drop_schema(target: Target, plan: Any) -> None:
    """DROP SCHEMA ... CASCADE of a schema with Delta tables in it: each goes as by DROP TABLE, and then the schema with all else in it."""
    Guard(target.spark).check_schema(target.parts[0], target.statement)
    catalog.drop_schema(target.spark, target.parts[0])
