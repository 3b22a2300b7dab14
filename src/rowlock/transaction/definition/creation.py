"""Creates tables, and changes their properties and clustering columns.

They stage no rows.  Of several creators one wins (I1); what is changed later is computed again from each head that it meets (see `head_commit`).
Under other clustering columns the files stay as they lie: OPTIMIZE sorts what is written from then on by the new ones, OPTIMIZE FULL all that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.boundary import row_identity
from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, SchemaMismatch, StatementRefused, TableExists
from rowlock.log.live_files import LiveFiles
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering, column_mapping, features, row_tracking, schema as schemas, schema_fit
from rowlock.protocol.actions import AddFile, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from rowlock.protocol.clustering import is_key_type, possible_keys
from rowlock.protocol.commits import serialize_commit, with_commit_timestamp
from rowlock.protocol.constraints import has_constraints
from rowlock.protocol.delta_properties import MIN_READER_VERSION, MIN_WRITER_VERSION, spelled as spelled_properties
from rowlock.protocol.feature_removal import with_properties
from rowlock.protocol.properties import MANIFESTS, TableProperties, is_true, no_manifests, validate_properties, validate_together
from rowlock.protocol.schema import ColumnPath, StructType, column_path, type_name
from rowlock.protocol.statistics import check_stats_columns
from rowlock.transaction.commit import commit
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.publish.commit_bytes import commit_info
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import current_observer, reached
from rowlock.transaction.state.proposal import Single
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_MOST_COLUMNS = 4
ANEW = "CREATE OR REPLACE TABLE AS SELECT"
"""The operation of a table that is made with rows, in place of another where there is one: that it met none counts as a read."""


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
        protocol = features.with_feature(head.protocol, "clustering")
        return HeadActions(protocol=protocol, domains=(clustering.clustering_domain(stored),))

    parameters = {"oldClusteringColumns": _text(state.refresh().clustering_columns), "newClusteringColumns": _text(columns)}
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
        condition = named("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", numColumnsLimit=_MOST_COLUMNS, actualNumColumns=len(columns))
        raise InvalidInput(f"A table is clustered by {_MOST_COLUMNS} columns at most, not by {len(columns)}", table=table, condition=condition)
    schema, properties = schemas.parse_schema(metadata.schema_string), TableProperties(metadata.configuration)
    with_stats = set(possible_keys(schema, properties))
    out: list[ColumnPath] = []
    for column in columns:
        spelled = _spelled(schema, (column,), table)
        name, path = ".".join(spelled), schema.physical_path(spelled)
        if path in out:
            twice = named("DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY", duplicateCols=name)
            raise InvalidInput(f"The clustering column {name!r} is named twice; name it once", table=table, condition=twice)
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
    text = f"There is no column {name!r} to cluster by; the table has {', '.join(schema.names)}"
    raise InvalidInput(text, table=table, condition=named("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", columnName=name, tableSchema=schemas.schema_json(schema)))


class NewTable(Single):
    """Version 0 of a table; `actions` are those of `serialize_commit`, `info` is its commitInfo."""

    options = Options(lane=False)  # there is no table yet that others could wait for

    def __init__(self, state: SharedState, info: dict[str, Any], actions: dict[str, Any], metrics: dict[str, int]) -> None:
        super().__init__(state, -1, info["txnId"])
        self.operation, self._info, self._actions, self._metrics = info["operation"], info, actions, metrics
        self.read = self.head = replace(draft_snapshot(actions["metadata"], state.store.root), protocol=actions["protocol"])

    def look(self, *, in_lane: bool) -> None:
        """Raises TableExists where another writer took version 0."""
        if self.attempts:
            raise TableExists("Another writer created the table first; open it with DeltaTable.forPath, or use createIfNotExists", table=self.state.store.root)

    def move_to(self, head: Any) -> None:
        """Nothing: it follows no version."""

    def commit_file(self) -> bytes:
        return serialize_commit(CommitInfo(self._info), **self._actions)

    def receipt(self, version: int | None) -> Receipt:
        return replace(super().receipt(version), metrics=self._metrics, seconds=dict(self.watch.seconds))

    def phase(self, name: str) -> None:
        reached(name, self, current_observer())


NEW_TABLE_DEFAULTS = {"delta.enableDeletionVectors": "true"}


def new_metadata(
    schema_string: str,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
    *,
    description: str | None = None,
    table: str | None = None,
) -> Metadata:
    """Checked metadata for a table that is created or replaced.  Raises SchemaMismatch, InvalidInput, UnsupportedFeature."""
    schema, configuration = schemas.parse_schema(schema_string), spelled_properties(configuration)
    schemas.check_no_collation(schema.fields, table)
    session = settings()
    session.check("create")
    asked = session.table_defaults(configuration)
    merged = dict(asked) if is_true(asked, MANIFESTS) else {**NEW_TABLE_DEFAULTS, **asked}  # a manifest cannot say which rows are deleted
    schemas.validate_new_schema(schema, partition_columns, column_mapping=column_mapping.is_mapped(merged), table=table)
    check_properties(merged, table)
    validate_together(merged, table, given=configuration)
    merged = row_tracking.with_column_names(merged, clock.new_id)
    comment = merged.pop("comment", None)  # the description, as `with_properties` has it
    metadata = Metadata(
        id=clock.new_id(),
        description=comment if description is None else description,
        format_provider="parquet",
        format_options={},
        schema_string=schemas.schema_json(schema),
        partition_columns=spelled(schema, partition_columns),
        configuration=merged,
        created_time_ms=clock.now_ms(),
    )
    check_stats_columns(metadata, configuration, table)
    return column_mapping.with_column_ids(metadata, clock.new_id)


_NO_PROPERTY = {"CREATE": "DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED", "ALTER": "DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED"}


def check_properties(properties: Mapping[str, str], table: str | None = None, *, statement: str = "CREATE") -> None:
    """Raises InvalidInput for the first property that cannot be set; the session of the call may allow names that Delta does not know.

    Raises StatementRefused for the feature `clustering`, which comes with clustering columns.
    """
    validate_properties(properties, table, arbitrary=settings().flag("allowArbitraryProperties.enabled"))
    if "delta.feature.clustering" in map(str.lower, properties):
        text = "The feature clustering is not set as a property: it comes with clustering columns, by CREATE TABLE ... CLUSTER BY or ALTER TABLE ... CLUSTER BY"
        raise StatementRefused(text, what="clustering as a property", table=table, condition=named(_NO_PROPERTY[statement], tableFeature="clustering"))


def clustering_by(metadata: Metadata, columns: Sequence[ColumnPath], table: str) -> DomainMetadata | None:
    """The domain metadata that records clustering columns, if there are any.  Raises as `checked_columns`."""
    return clustering.clustering_domain(checked_columns(metadata, columns, table)) if columns else None


def spelled(schema: schemas.StructType, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of these names, as the schema spells them."""
    return tuple(found.name for name in names if (found := schema.find(name)) is not None)


def check_partition_columns(schema: schemas.StructType, partition_by: Sequence[str], table: str) -> None:
    """Raises SchemaMismatch for the first of these that the rows do not have."""
    if missing := [c for c in partition_by if schema.find(c) is None]:
        condition = named("DELTA_PARTITION_COLUMN_NOT_FOUND", columnName=schemas.quote(missing[0]), schemaMap=", ".join(schema.names))
        raise SchemaMismatch(f"There is no column {missing[0]!r} to partition by; the rows have {', '.join(schema.names)}", table=table, condition=condition)


def create(
    state: SharedState,
    schema_string: str,
    partition_columns: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    *,
    cluster_by: Sequence[ColumnPath] = (),
    description: str | None = None,
    managed: bool = False,
    operation: str = "CREATE TABLE",
) -> Receipt:
    """Creates an empty table.  Of concurrent creations one wins and the others raise TableExists."""
    metadata = new_metadata(schema_string, partition_columns, configuration or {}, description=description, table=state.store.root)
    check_new_table(metadata, state.store.root, clustered=bool(cluster_by))
    return create_from(state, metadata, operation=operation, parameters=parameters_of(metadata, cluster_by, managed), cluster_by=cluster_by)


def widened(metadata: Metadata, schema: StructType, table: str) -> Metadata:
    """The metadata with other columns, of which new ones get ids under column mapping.  Raises SchemaMismatch or UnsupportedFeature."""
    schemas.validate_new_schema(schema, metadata.partition_columns, column_mapping=column_mapping.is_mapped(metadata.configuration), table=table)
    return column_mapping.with_column_ids(replace(metadata, schema_string=schemas.schema_json(schema)), clock.new_id)


def protocol_for(metadata: Metadata, *, clustered: bool = False) -> Protocol:
    """The protocol of a new table with this metadata."""
    schema = schemas.parse_schema(metadata.schema_string)
    plain = features.protocol_for_new_table(metadata.configuration, clustered=clustered, columns=features.features_of_columns(schema))
    return features.supporting(plain, metadata)


def check_new_table(metadata: Metadata, table: str, *, clustered: bool = False) -> None:
    """Raises UnsupportedFeature where a table with this metadata could not be written by this version."""
    features.check_writable(protocol_for(metadata, clustered=clustered), metadata, table)


def draft_snapshot(metadata: Metadata, table: str) -> Snapshot:
    """The snapshot of a table that is about to be created, as if it existed and were empty."""
    return Snapshot(
        table=table,
        version=-1,
        protocol=protocol_for(metadata),
        metadata=metadata,
        schema=schemas.parse_schema(metadata.schema_string, table),
        files=LiveFiles.of_adds(),
        txns={},
        domains={},
        timestamp_ms=0,
        txn_id=None,
        commits_since_checkpoint=0,
        last_commit_tag=None,
        chain="",
    )


def check_layout(snapshot: Snapshot, partition_by: Sequence[str], rows: schemas.StructType | None = None) -> None:
    """Raises InvalidInput where a caller asks for other partition columns than the table has; asking for none is allowed.

    Where also the columns of the `rows` do not fit it raises that SchemaMismatch, as delta-spark does.
    """
    if partition_by and [c.lower() for c in partition_by] != [c.lower() for c in snapshot.partition_columns]:
        if rows is not None:
            schema_fit.fit(rows, snapshot.schema, snapshot.table)
        have = ", ".join(snapshot.partition_columns) or "nothing"
        text = f"The table is partitioned by {have}, not by {', '.join(partition_by)}; leave partition_by out"
        raise InvalidInput(text, table=snapshot.table, condition=named("DELTA_METADATA_MISMATCH"))


def create_from(
    state: SharedState,
    metadata: Metadata,
    *,
    operation: str,
    parameters: Mapping[str, Any],
    cluster_by: Sequence[ColumnPath] = (),
    adds: Sequence[AddFile] = (),
    app: SetTransaction | None = None,
    metrics: dict[str, int] | None = None,
) -> Receipt:
    """Creates a table from checked metadata and data files that are written already; `metrics` are those of an append by default.  Raises TableExists."""
    overwrites = operation == ANEW or (parameters.get("mode") == "Overwrite" and "predicate" not in parameters)  # as delta-spark counts
    zeros = ("numRemovedFiles", "numRemovedBytes") if overwrites else ("numCopiedRows", "numAddedChangeFiles") if "predicate" in parameters else ()
    metrics = append_metrics(adds) | (dict.fromkeys(zeros, 0) if adds else {}) if metrics is None else metrics
    protocol, metadata = protocol_for(metadata, clustered=bool(cluster_by)), stored(metadata)
    clustered = clustering_by(metadata, cluster_by, state.store.root)
    adds, marks = row_identity.assign_row_ids_under(protocol, metadata, adds, mark=row_tracking.NO_MARK, version=0, count=refuse_uncounted)
    domains = marks if clustered is None else (clustered, *marks)
    txn_id = clock.new_id()
    info = commit_info(operation, parameters, txn_id, read_version=None, blind=not overwrites and operation != "CONVERT", metrics=metrics)
    info = with_commit_timestamp(info, metadata.configuration, None)
    actions = {"protocol": protocol, "metadata": metadata, "domains": domains, "adds": adds, "txns": () if app is None else (app,)}
    return commit(NewTable(state, info, actions, metrics))


def change_metadata(
    state: SharedState, operation: str, parameters: Mapping[str, Any], change: Callable[[Snapshot], Metadata], *, reads_rows: bool = False
) -> Receipt:
    """Commits the metadata `change(head)`, computed again from every new head.  The receipt has no version where nothing changes."""

    def make(head: Snapshot) -> HeadActions | None:
        wanted = change(head)
        protocol, metadata = upgraded(head.protocol, wanted.configuration), stored(wanted)
        if wanted == head.metadata or (metadata == head.metadata and protocol == head.protocol):
            return None
        tags = {"rowTrackingEnablementOnly": "true"} if parameters.get("properties") == {row_tracking.ENABLED: "true"} else {}
        return HeadActions(metadata=metadata, protocol=protocol, tags=tags)  # by that tag delta-spark's writers know that they need not fail

    return commit_from_head(state, operation, parameters, make, reads_rows=reads_rows)


def upgraded(protocol: Protocol, configuration: Mapping[str, str]) -> Protocol:
    """The protocol with the features that these properties need.  A version that they do not name is the protocol's own."""
    versions = {MIN_READER_VERSION: str(protocol.min_reader_version), MIN_WRITER_VERSION: str(protocol.min_writer_version)}
    listed = "typeWidening-preview" in features.writer_features(protocol)  # it serves the property as well, also for readers that know it alone
    return widest(protocol, features.protocol_for_new_table({**versions, **configuration} | ({"delta.enableTypeWidening": "false"} if listed else {})))


def stored(metadata: Metadata) -> Metadata:
    """The metadata as the log has it: without the properties that the protocol holds."""
    return replace(metadata, configuration=features.without_protocol_properties(metadata.configuration))


def set_properties(state: SharedState, properties: Mapping[str, str]) -> Receipt:
    """Sets table properties.  Raises InvalidInput for a name or value that is not allowed, UnsupportedFeature by name."""
    properties = spelled_properties(properties)
    check_properties(properties, state.store.root, statement="ALTER")
    if has_constraints(properties):
        text = "A CHECK constraint cannot be set as a property: the rows that are there must meet it: use DeltaTable.addConstraint"
        raise InvalidInput(text, table=state.store.root, condition=named("DELTA_ADD_CONSTRAINTS"))

    def change(head: Snapshot) -> Metadata:
        after = with_properties(head.metadata, properties)
        if properties.get(MIN_READER_VERSION) == "3" and properties.get(MIN_WRITER_VERSION, str(head.protocol.min_writer_version)) != "7":
            text = f"reader version 3 lists features by name, which needs writer version 7: set {MIN_WRITER_VERSION} = 7, too"
            raise InvalidInput(text, table=head.table, condition=named("DELTA_READ_FEATURE_PROTOCOL_REQUIRES_WRITE", writerVersion=7))
        configuration = row_tracking.with_column_names(after.configuration, clock.new_id)
        validate_together(configuration, state.store.root, given=properties)
        check_stats_columns(head.metadata, properties, state.store.root)
        if is_true(properties, MANIFESTS) and (marked := next((f.path for f in head.files.adds() if f.deletion_vector is not None), None)):
            text = f"{MANIFESTS} needs files without deletion vectors, and {marked} has one: REORG TABLE ... APPLY (PURGE) writes such files anew"
            raise StatementRefused(text, what=MANIFESTS, table=head.table, condition=no_manifests("EXISTING", head.table))
        if is_true(configuration, row_tracking.ENABLED) and not row_tracking.is_enabled(head.protocol, head.metadata):
            _check_row_ids(head)
        return column_mapping.with_changed_mode(head.metadata, replace(after, configuration=configuration), state.store.root)

    return change_metadata(state, "SET TBLPROPERTIES", {"properties": dict(properties)}, change)


def _check_row_ids(head: Snapshot) -> None:
    """Raises where rows have no row ids: from the moment that row tracking is enabled readers may ask for them."""
    if (bare := next((f.path for f in head.files.adds() if f.base_row_id is None), None)) is not None:
        text = f"Row tracking can be enabled when every data file has row ids, and {bare} has none: DeltaTable.setProperties gives them first, unless the feature is being dropped"
        raise StatementRefused(text, what=row_tracking.ENABLED, table=head.table)


def refuse_uncounted(file: AddFile) -> int:
    """A row counter that refuses: raises InvalidInput, since row ids need numRecords in a file's statistics."""
    raise InvalidInput(f"Row ids cannot be given to {file.path}: its statistics do not say how many rows it has")


def unset_properties(state: SharedState, keys: Sequence[str]) -> Receipt:
    """Removes table properties; names that are not set are passed over.  Raises InvalidInput for those by which rows and columns keep their ids."""
    if fixed := [k for k in keys if k in (row_tracking.ROW_ID_COLUMN, row_tracking.COMMIT_VERSION_COLUMN, column_mapping.MAX_ID)]:
        raise InvalidInput(f"Property {fixed[0]} cannot be unset: by it rows or columns keep their ids", table=state.store.root)

    def change(head: Snapshot) -> Metadata:
        after = with_properties(head.metadata, dict.fromkeys(keys))
        validate_together(after.configuration, state.store.root, given={})
        return column_mapping.with_changed_mode(head.metadata, after, state.store.root)

    return change_metadata(state, "UNSET TBLPROPERTIES", {"properties": list(keys), "ifExists": True}, change)


def widest(old: Protocol, new: Protocol) -> Protocol:
    """The protocol with the features of both; the old one where that is enough."""
    readers, writers = features.reader_features(old) | features.reader_features(new), features.writer_features(old) | features.writer_features(new)
    if readers == features.reader_features(old) and writers == features.writer_features(old):
        return old
    return features.lowest_protocol(readers, writers)


def parameters_of(metadata: Metadata, cluster_by: Sequence[ColumnPath], managed: bool) -> dict[str, Any]:
    """The operationParameters of a commit with a new definition."""
    return {
        "isManaged": "true" if managed else "false",
        "description": metadata.description,
        "partitionBy": list(metadata.partition_columns),
        "clusterBy": [".".join(c) for c in cluster_by],
        "properties": features.without_protocol_properties(metadata.configuration),
    }


def append_metrics(adds: Sequence[AddFile]) -> dict[str, int]:
    """Delta's operation metrics of a commit that adds these files; empty for none."""
    return {"numFiles": len(adds), "numOutputRows": sum(a.num_records or 0 for a in adds), "numOutputBytes": sum(a.size_bytes for a in adds)} if adds else {}
