"""Which table features this version can read and which it can write, and the refusal of the rest by name (I9).

Reading and writing are judged apart.  A feature that hinders only where it is in use (a check
constraint, a change feed) does not hinder a table that merely lists it.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from rowlock.exceptions import InvalidInput, StatementRefused, UnsupportedFeature
from rowlock.protocol.actions import Metadata, Protocol
from rowlock.protocol.constraints import checks_of, has_constraints, is_constraint
from rowlock.protocol.generated import FEATURE as GENERATED
from rowlock.protocol.generated import GENERATION_EXPRESSION, inner_generated
from rowlock.protocol.schema import StructType, only_read_types, parse_schema, zoneless_column

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

_WIDENING = frozenset({"typeWidening", "typeWidening-preview"})
_VARIANT = frozenset({"variantType", "variantType-preview", "variantShredding", "variantShredding-preview"})
READABLE = frozenset({"deletionVectors", "columnMapping", "v2Checkpoint", "timestampNtz", "vacuumProtocolCheck"}) | _WIDENING | _VARIANT
WRITABLE = (
    frozenset(
        {
            "deletionVectors",
            "appendOnly",
            "changeDataFeed",
            "invariants",
            "checkConstraints",
            "inCommitTimestamp",
            "columnMapping",
            "generatedColumns",
            "domainMetadata",
            "clustering",
            "rowTracking",
            "timestampNtz",
            "vacuumProtocolCheck",
        }
    )
    | _WIDENING
)

_NEED_DOMAINS = frozenset({"rowTracking", "clustering"})
_Trace = Callable[[Metadata, Collection[str]], str | None]


def _properties_left(*names: str) -> _Trace:
    return lambda metadata, domains: next(
        (f"property {n} = {v!r} is set" for n in names if (v := metadata.configuration.get(n, "false").strip().lower()) != "false"), None
    )


_TRACES: Mapping[str, _Trace] = {
    "checkConstraints": lambda metadata, domains: next((f"property {key} is a CHECK constraint" for key in metadata.configuration if is_constraint(key)), None),
    "domainMetadata": lambda metadata, domains: next((f"domain {d} is there" for d in sorted(domains)), None),
    "inCommitTimestamp": _properties_left(
        "delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"
    ),
    "vacuumProtocolCheck": lambda metadata, domains: None,
}
"""Features that may be dropped, by what says that a table still uses them.  None of them is needed to read older versions of a table."""

_LEGACY_WRITER: tuple[tuple[int, tuple[str, ...]], ...] = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)
ZONELESS = "timestampNtz"
ActiveTest = Callable[[Metadata, StructType], bool]


def _property_on(name: str) -> ActiveTest:
    return lambda metadata, schema: metadata.configuration.get(name, "").strip().lower() == "true"


def _field_key(prefix: str) -> ActiveTest:
    return lambda metadata, schema: any(key.startswith(prefix) for _, f in schema.all_fields() for key in f.metadata)


def _hides_the_feed(metadata: Metadata, schema: StructType) -> bool:
    """A column of the table under a name that the change data feed gives to its own."""
    return _property_on("delta.enableChangeDataFeed")(metadata, schema) and any(
        n.lower() in ("_change_type", "_commit_version", "_commit_timestamp") for n in schema.names
    )


_HINDERS_WHEN_ACTIVE: Mapping[str, ActiveTest] = {
    "changeDataFeed": _hides_the_feed,
    "identityColumns": _field_key("delta.identity."),
    "allowColumnDefaults": _field_key("CURRENT_DEFAULT"),
    "inCommitTimestamp-preview": _property_on("delta.enableInCommitTimestamps-preview"),
    "columns of type void": lambda metadata, schema: "void" in only_read_types(schema),
    "char and varchar columns": _field_key("__CHAR_VARCHAR_TYPE_STRING"),
}
_ACTIVATED_BY_PROPERTY: Mapping[str, ActiveTest] = {
    "icebergCompatV1": _property_on("delta.enableIcebergCompatV1"),
    "icebergCompatV2": _property_on("delta.enableIcebergCompatV2"),
    "icebergCompatV3": _property_on("delta.enableIcebergCompatV3"),
    "icebergWriterCompatV1": _property_on("delta.enableIcebergWriterCompatV1"),
    "variantShredding": _property_on("delta.enableVariantShredding"),
    "materializePartitionColumns": _property_on("delta.enableMaterializePartitionColumnsFeature"),
    "v2Checkpoint": lambda metadata, schema: metadata.configuration.get("delta.checkpointPolicy", "").strip().lower() == "v2",
}
"""Features that a table has from the moment a property asks for them; unlike the ones above they hinder wherever they are listed."""


def column_mapping_mode(configuration: Mapping[str, str]) -> str:
    """`none`, `name` or `id`."""
    return configuration.get("delta.columnMapping.mode", "none").strip().lower() or "none"


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader must know, legacy versions spelled out."""
    if protocol.min_reader_version >= 3:
        return protocol.reader_features or frozenset()
    return frozenset({"columnMapping"}) if protocol.min_reader_version == 2 else frozenset()


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features that a writer must know, legacy versions spelled out."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    return frozenset(name for version, added in _LEGACY_WRITER if protocol.min_writer_version >= version for name in added)


def vectors_allowed(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new deletion vectors may be written: the feature is there and the property is on."""
    has_feature = "deletionVectors" in reader_features(protocol) and "deletionVectors" in writer_features(protocol)
    return has_feature and _property_on("delta.enableDeletionVectors")(metadata, StructType(()))


def check_readable(protocol: Protocol, metadata: Metadata, table: str | None = None) -> None:
    """Raises UnsupportedFeature, access 'read', naming what this version cannot read."""
    if protocol.min_reader_version > MAX_READER_VERSION:
        raise _refusal(f"reader version {protocol.min_reader_version}", "read", table)
    for name in sorted(reader_features(protocol) - READABLE):
        raise _refusal(name, "read", table)
    if metadata.format_provider.lower() != "parquet":
        raise _refusal(f"data format {metadata.format_provider}", "read", table)
    if column_mapping_mode(metadata.configuration) not in ("none", "name", "id"):
        raise _refusal(f"column mapping mode {column_mapping_mode(metadata.configuration)}", "read", table)


def check_writable(protocol: Protocol, metadata: Metadata, table: str | None = None) -> None:
    """Raises UnsupportedFeature, access 'write' (or 'read'), naming what hinders writing this table."""
    check_readable(protocol, metadata, table)
    if protocol.min_writer_version > MAX_WRITER_VERSION:
        raise _refusal(f"writer version {protocol.min_writer_version}", "write", table)
    schema = parse_schema(metadata.schema_string, table)
    for name in sorted((writer_features(protocol) | reader_features(protocol)) - WRITABLE):
        if name not in _HINDERS_WHEN_ACTIVE:
            raise _refusal(name, "write", table)
    if problem := _row_tracking_problem(protocol, metadata):
        raise _refusal(f"rowTracking ({problem})", "write", table)
    if problem := _generation_problem(protocol, schema):
        raise _refusal(f"{GENERATED} ({problem})", "write", table)
    if ZONELESS not in writer_features(protocol) and zoneless_column(schema) is not None:
        raise _refusal(
            f"a column of type timestamp_ntz whose protocol does not list {ZONELESS}: list it first, by DeltaTable.addFeatureSupport({ZONELESS!r})",
            "write",
            table,
        )
    for name, is_active in (*_HINDERS_WHEN_ACTIVE.items(), *_ACTIVATED_BY_PROPERTY.items()):
        if is_active(metadata, schema):
            raise _refusal(name, "write", table)
    checks_of(metadata, schema, table)


def _row_tracking_problem(protocol: Protocol, metadata: Metadata) -> str | None:
    """Why row ids cannot be kept though the table asks for it."""
    if not _property_on("delta.enableRowTracking")(metadata, StructType(())):
        return None
    if "rowTracking" not in writer_features(protocol):
        return "enabled without the feature"
    if _property_on("delta.rowTrackingSuspended")(metadata, StructType(())):
        return "enabled and suspended"
    missing = [f"delta.rowTracking.materialized{name}ColumnName" for name in ("RowId", "RowCommitVersion")]
    return next((f"without {name}" for name in missing if not metadata.configuration.get(name)), None)


def _generation_problem(protocol: Protocol, schema: StructType) -> str | None:
    """Why it is not clear what a generation expression asks of a writer."""
    if (inner := next(inner_generated(schema), None)) is not None:
        return f"of {inner}, which is inside a column"
    listed = GENERATED in writer_features(protocol)
    return next((f"of {f.name}, without the feature in the protocol" for f in schema.fields if GENERATION_EXPRESSION in f.metadata and not listed), None)


def _refusal(feature: str, access: Literal["read", "write"], table: str | None) -> UnsupportedFeature:
    return UnsupportedFeature(f"this version of Rowlock cannot {access} tables with {feature}", feature=feature, access=access, table=table)


def protocol_for_new_table(configuration: Mapping[str, str], clustered: bool = False, generated: bool = False, zoneless: bool = False) -> Protocol:
    """The protocol of a table made with these properties (and with generated columns, and with times without a zone), as delta-spark 4.x writes it."""
    reader: set[str] = set()
    writer: set[str] = set()
    if configuration.get("delta.enableDeletionVectors", "").strip().lower() == "true":
        reader.add("deletionVectors")
        writer.add("deletionVectors")
    if column_mapping_mode(configuration) != "none":
        reader.add("columnMapping")
        writer.add("columnMapping")
    if configuration.get("delta.enableTypeWidening", "").strip().lower() == "true":
        reader.add("typeWidening")
        writer.add("typeWidening")
    if configuration.get("delta.enableInCommitTimestamps", "").strip().lower() == "true":
        writer.add("inCommitTimestamp")
    if has_constraints(configuration):
        writer.add("checkConstraints")
    if generated:
        writer.add(GENERATED)
    if zoneless:
        reader.add(ZONELESS)
        writer.add(ZONELESS)
    if configuration.get("delta.enableRowTracking", "").strip().lower() == "true":
        writer.add("rowTracking")
    if configuration.get("delta.enableChangeDataFeed", "").strip().lower() == "true":
        writer.add("changeDataFeed")
    if clustered:
        writer |= {"clustering", "domainMetadata"}
    for key, value in configuration.items():
        if key.startswith("delta.feature.") and value in ("supported", "enabled"):
            name = key[len("delta.feature.") :]
            if name not in WRITABLE:
                raise _refusal(name, "write", None)
            writer.add(name)
            reader |= {name} & READABLE
    if "rowTracking" in writer:
        writer.add("domainMetadata")  # it holds the high-water mark
    if not writer:
        return Protocol(1, 2)
    features = frozenset(writer | {"invariants", "appendOnly"})
    return listing(frozenset(reader), features)


def listing(readers: frozenset[str], writers: frozenset[str], lowest_reader: int = 1) -> Protocol:
    """The protocol that lists these features by name; readers that need to know no more than column mapping need no list."""
    needs_list = bool(readers - {"columnMapping"})
    return Protocol(3 if needs_list else 2 if readers else lowest_reader, 7, readers if needs_list else None, readers | writers)


def with_versions(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The protocol raised to these versions, never lowered; what it lists stays listed.  Raises InvalidInput for versions that do not exist or do not go together."""
    if not (1 <= reader <= MAX_READER_VERSION and 1 <= writer <= MAX_WRITER_VERSION):
        raise InvalidInput(
            f"there is no protocol with reader version {reader} and writer version {writer}: readers go from 1 to {MAX_READER_VERSION}, writers from 1 to {MAX_WRITER_VERSION}"
        )
    if writer < {1: 1, 2: 5, 3: 7}[reader]:
        raise InvalidInput(f"reader version {reader} needs writer version {5 if reader == 2 else 7} or above, not {writer}")
    asked = Protocol(reader, writer, frozenset() if reader == 3 else None, frozenset() if writer == 7 else None)
    readers, writers = reader_features(protocol) | reader_features(asked), writer_features(protocol) | writer_features(asked)
    highest = max(protocol.min_reader_version, reader), max(protocol.min_writer_version, writer)
    if highest[1] < 7:
        return Protocol(*highest)
    return Protocol(*highest, readers if highest[0] == 3 else None, writers | readers)


def with_feature(protocol: Protocol, name: str) -> Protocol:
    """The protocol that lists one feature more, and what that needs.  Raises UnsupportedFeature for one that this version cannot write."""
    if name not in WRITABLE:
        raise _refusal(name, "write", None)
    added = {name} | ({"domainMetadata"} if name in _NEED_DOMAINS else set())
    if added <= writer_features(protocol):
        return protocol
    return _of_features(reader_features(protocol) | (added & READABLE), writer_features(protocol) | added)


def without_feature(protocol: Protocol, metadata: Metadata, domains: Collection[str], name: str, table: str | None = None) -> Protocol:
    """The protocol without a feature of which the table holds no trace; `domains` are those that live.

    Raises StatementRefused, naming the feature, where it is not listed, left a trace, or cannot be dropped by this version.
    """
    if name not in writer_features(protocol) | reader_features(protocol):
        raise StatementRefused(
            f"Feature {name} cannot be dropped: the table's protocol does not list it [DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT]", what=name, table=table
        )
    trace = _TRACES.get(name)
    if trace is None:
        text = "others may still need it to read older versions, or it is part of what the table is; delta-spark's ALTER TABLE ... DROP FEATURE drops some of those"
        raise StatementRefused(
            f"This version of Rowlock does not drop feature {name}: {text} [DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE]", what=name, table=table
        )
    if found := trace(metadata, domains):
        raise StatementRefused(f"Feature {name} cannot be dropped while the table uses it: {found}", what=name, table=table)
    if name == "domainMetadata" and (needs := sorted(_NEED_DOMAINS & writer_features(protocol))):
        raise StatementRefused(f"Feature {name} cannot be dropped: {needs[0]} needs it", what=name, table=table)
    return _of_features(reader_features(protocol) - {name}, writer_features(protocol) - {name})


def _of_features(readers: frozenset[str], writers: frozenset[str]) -> Protocol:
    """The lowest protocol that has just these features: a legacy version where one does."""
    for version in range(MAX_WRITER_VERSION):
        reader = 2 if "columnMapping" in readers else 1
        legacy = Protocol(reader, version)
        if version and reader_features(legacy) == readers and writer_features(legacy) == writers:
            return legacy
    return listing(readers, writers)
