"""Table features: which ones this version can read and write, and which protocol lists which.  Others are refused by name (I9).

Reading and writing are checked separately.  A feature that matters only while in use (identity columns, column
defaults) is refused only for tables that use it, not for those that merely list it.

Which other engines may write a table at the same time follows from its features, its store and its arbiter.  Those that delta-rs refuses were found
with deltalake 1.6; a test checks them again.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from rowlock.conditions import Condition, named
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.protocol.actions import Metadata, Protocol
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR, unknown_bounds
from rowlock.protocol.column_values import (
    CURRENT_DEFAULT,
    DEFAULTS,
    GENERATED,
    GENERATION_EXPRESSION,
    IDENTITY,
    PREFIX as IDENTITY_PREFIX,
    column_defaults,
    generated_columns,
    inner_fields,
    is_identity,
    problem_of as identity_problem_of,
)
from rowlock.protocol.constraints import checks_of, has_constraints
from rowlock.protocol.delta_properties import DELTA_PROPERTIES, FEATURE_PREFIX, MAX_READER_VERSION, MAX_WRITER_VERSION, MIN_READER_VERSION, MIN_WRITER_VERSION
from rowlock.protocol.paths import scheme_of
from rowlock.protocol.properties import FEATURE_VALUES, column_mapping_mode, is_true
from rowlock.protocol.schema import VOID, StructType, parse_schema, schema_json, type_names, void_within
from rowlock.version import VERSION

V2_CHECKPOINTS = "v2Checkpoint"
ZONELESS = "timestampNtz"
Configuration = Mapping[str, str]
ActiveTest = Callable[[Metadata, StructType], bool]


@dataclass(frozen=True, slots=True)
class Feature:
    """A table feature that this version can write.

    reads    whether readers must support it, too
    legacy   the first writer version, below 7, that implies it; None if none does
    asked    whether a table's properties ask for it
    columns  the columns of a schema that need it
    problem  what of a schema and its partition columns cannot be written even with the feature, as a phrase
    needs    another feature that it depends on
    """

    name: str
    reads: bool = False
    legacy: int | None = None
    asked: Callable[[Configuration], bool] = lambda configuration: False
    columns: Callable[[StructType], Collection[str]] = lambda schema: ()
    problem: Callable[[StructType, Collection[str]], str | None] = lambda schema, partitions: None
    needs: str | None = None


def _on(name: str) -> Callable[[Configuration], bool]:
    return lambda configuration: is_true(configuration, name)


def _inside(paths: Iterator[str]) -> str | None:
    return next((f"of {path}, which is inside a column" for path in paths), None)


FEATURES: tuple[Feature, ...] = (
    Feature("appendOnly", legacy=2, asked=_on("delta.appendOnly")),
    Feature("invariants", legacy=2),
    Feature("checkConstraints", legacy=3, asked=has_constraints),
    Feature("changeDataFeed", legacy=4, asked=_on("delta.enableChangeDataFeed")),
    Feature(
        GENERATED,
        legacy=4,
        columns=lambda schema: [g.name for g in generated_columns(schema)],
        problem=lambda schema, partitions: _inside(inner_fields(schema, GENERATION_EXPRESSION)),
    ),
    Feature("columnMapping", reads=True, legacy=5, asked=lambda configuration: column_mapping_mode(configuration) != "none"),
    Feature(IDENTITY, legacy=6, columns=lambda schema: [f.name for f in schema.fields if is_identity(f)], problem=identity_problem_of),
    Feature("deletionVectors", reads=True, asked=_on("delta.enableDeletionVectors")),
    Feature(V2_CHECKPOINTS, reads=True, asked=lambda configuration: configuration.get("delta.checkpointPolicy") == "v2"),
    Feature(ZONELESS, reads=True, columns=lambda schema: type_names(schema) & {"timestamp_ntz"}),
    Feature("vacuumProtocolCheck", reads=True),
    Feature("typeWidening", reads=True, asked=_on("delta.enableTypeWidening")),
    *(Feature(name, reads=True) for name in ("typeWidening-preview", "variantType", "variantType-preview", "variantShredding", "variantShredding-preview")),
    Feature("inCommitTimestamp", asked=_on("delta.enableInCommitTimestamps")),
    Feature(DEFAULTS, columns=column_defaults, problem=lambda schema, partitions: _inside(inner_fields(schema, CURRENT_DEFAULT))),
    Feature("domainMetadata"),
    Feature("rowTracking", asked=_on("delta.enableRowTracking"), needs="domainMetadata"),  # a domain holds the row id high-water mark
    Feature("clustering", needs="domainMetadata"),
    Feature("checkpointProtection"),
)
"""Every feature that this version can write.  Which of them can be dropped: `protocol.feature_removal`."""
_BY_NAME = {f.name: f for f in FEATURES}
READABLE = frozenset(f.name for f in FEATURES if f.reads)
WRITABLE = frozenset(_BY_NAME)


def _shadows_change_feed_column(metadata: Metadata, schema: StructType) -> bool:
    """Whether a column has the name of one of the change data feed's own columns, while the feed is on."""
    on = any(is_true(metadata.configuration, name) for name in ("delta.enableChangeDataFeed", "delta.enableChangeDataCapture"))  # the second is its former name
    return on and any(n.lower() in ("_change_type", "_commit_version", "_commit_timestamp") for n in schema.names)


_REFUSED_WHILE_ACTIVE: Mapping[str, ActiveTest] = {
    "a column named _change_type, _commit_version or _commit_timestamp beside delta.enableChangeDataFeed": _shadows_change_feed_column,
    "inCommitTimestamp-preview": lambda metadata, schema: is_true(metadata.configuration, "delta.enableInCommitTimestamps-preview"),
    "type void within a column": lambda metadata, schema: void_within(schema) is not None,
    "no column but of type void": lambda metadata, schema: bool(schema.fields) and type_names(schema) == {VOID},
}
"""Features that prevent writing only while the table uses them, each with the test for that."""
_ACTIVATED_BY_PROPERTY = {p.feature: p.name for p in DELTA_PROPERTIES.values() if p.treatment == "feature"}
"""Features that a property activates even where the protocol does not list them; unlike those above, listing them alone prevents writing too."""


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader must support; a legacy version is translated to its features."""
    if protocol.min_reader_version >= 3:
        return protocol.reader_features or frozenset()
    return frozenset({"columnMapping"}) if protocol.min_reader_version == 2 else frozenset()


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features that a writer must support; a legacy version is translated to its features."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    unread = {"columnMapping"} if protocol.min_reader_version < 2 else set()  # as delta-spark has it, readers of version 1 know no mapping
    return frozenset(f.name for f in FEATURES if f.legacy is not None and protocol.min_writer_version >= f.legacy) - unread


def all_features(protocol: Protocol) -> frozenset[str]:
    """Every feature that readers or writers must support; legacy versions are translated to features."""
    return reader_features(protocol) | writer_features(protocol)


def vectors_allowed(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new deletion vectors may be written: the feature is listed and the property is on."""
    has_feature = "deletionVectors" in reader_features(protocol) and "deletionVectors" in writer_features(protocol)
    return has_feature and is_true(metadata.configuration, "delta.enableDeletionVectors")


def check_readable(protocol: Protocol, metadata: Metadata, table: str | None = None) -> None:
    """Raises UnsupportedFeature (access 'read') naming the first feature that this version cannot read."""
    if protocol.min_reader_version > MAX_READER_VERSION:
        raise _refusal(f"reader version {protocol.min_reader_version}", "read", table)
    for name in sorted(reader_features(protocol) - READABLE):
        raise _refusal(name, "read", table)
    if metadata.format_provider.lower() != "parquet":
        raise _refusal(f"data format {metadata.format_provider}", "read", table)
    if column_mapping_mode(metadata.configuration) not in ("none", "name", "id"):
        raise _refusal(f"column mapping mode {column_mapping_mode(metadata.configuration)}", "read", table)


def check_features(protocol: Protocol, metadata: Metadata, table: str | None = None) -> None:
    """Raises UnsupportedFeature (access 'write' or 'read') naming the first feature of the protocol that this version cannot write, in use or not."""
    check_readable(protocol, metadata, table)
    if protocol.min_writer_version > MAX_WRITER_VERSION:
        raise _refusal(f"writer version {protocol.min_writer_version}", "write", table)
    for name in sorted((writer_features(protocol) | reader_features(protocol)) - WRITABLE):
        if name not in _REFUSED_WHILE_ACTIVE:
            raise _refusal(name, "write", table)


@lru_cache(maxsize=128)  # every transaction asks, mostly of the same definition; a refusal is not cached
def check_writable(protocol: Protocol, metadata: Metadata, table: str | None = None) -> None:
    """Raises UnsupportedFeature (access 'write' or 'read') naming the first feature that prevents writing this table."""
    check_features(protocol, metadata, table)
    schema = parse_schema(metadata.schema_string, table)
    if problem := _row_tracking_problem(protocol, metadata):
        raise _refusal(f"rowTracking ({problem})", "write", table)
    listed = writer_features(protocol)
    for f in FEATURES:
        unlisted = (f"of {name}, without the feature in the protocol" for name in f.columns(schema) if f.name not in {*listed, ZONELESS})
        if problem := f.problem(schema, metadata.partition_columns) or next(unlisted, None):
            raise _refusal(f"{f.name} ({problem})", "write", table)
    if missing := writer_features(supporting(protocol, metadata)) - listed:
        raise _refusal(f"what needs {min(missing)}, which the protocol does not list", "write", table)
    if ZONELESS not in listed and "timestamp_ntz" in type_names(schema):
        raise _refusal(
            f"a column of type timestamp_ntz whose protocol does not list {ZONELESS}: add the feature first, with DeltaTable.addFeatureSupport({ZONELESS!r})",
            "write",
            table,
            named("DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT", unsupportedFeatures=ZONELESS, supportedFeatures=", ".join(sorted(listed))),
        )
    if (unknown := next(unknown_bounds(schema), None)) is not None:
        raise _refusal(f"{CHAR_VARCHAR} (the bounds of {unknown} would not be enforced)", "write", table)
    active = [name for name, is_active in _REFUSED_WHILE_ACTIVE.items() if is_active(metadata, schema)]
    active += [name for name, key in _ACTIVATED_BY_PROPERTY.items() if is_true(metadata.configuration, key)]
    if active:
        raise _refusal(active[0], "write", table)
    checks_of(metadata, schema, table)


def _row_tracking_problem(protocol: Protocol, metadata: Metadata) -> str | None:
    """Why row ids cannot be preserved although the table enables row tracking; None if they can."""
    if not is_true(metadata.configuration, "delta.enableRowTracking"):
        return None
    if "rowTracking" not in writer_features(protocol):
        return "enabled without the feature"
    if is_true(metadata.configuration, "delta.rowTrackingSuspended"):
        return "enabled and suspended"
    missing = [f"delta.rowTracking.materialized{name}ColumnName" for name in ("RowId", "RowCommitVersion")]
    return next((f"without {name}" for name in missing if not metadata.configuration.get(name)), None)


def _refusal(feature: str, access: Literal["read", "write"], table: str | None, condition: Condition | None = None) -> UnsupportedFeature:
    """The error for a feature that this version of Rowlock cannot read or write."""
    return UnsupportedFeature(
        f"this version of Rowlock cannot {access} tables with {feature}",
        feature=feature,
        access=access,
        table=table,
        condition=condition
        or named(
            "DELTA_UNSUPPORTED_FEATURES_FOR_READ" if access == "read" else "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
            tableNameOrPath=table or "",
            deltaVersion=VERSION,
            unsupported=feature,
        ),
    )


def features_of_columns(schema: StructType) -> frozenset[str]:
    """The features that a new table needs for what its columns are."""
    return frozenset(f.name for f in FEATURES if f.columns(schema))


def in_force(protocol: Protocol, metadata: Metadata) -> Metadata:
    """The metadata without the expressions of generated columns, and the numbers of identity columns, that the protocol lists no feature for.

    Writers that did not know them have copied them into new tables; such columns are as any others, as delta-spark has it, and the next ALTER leaves that out.
    """
    listed = writer_features(protocol)
    void = tuple(
        prefix for name, prefix in ((GENERATED, GENERATION_EXPRESSION), (IDENTITY, IDENTITY_PREFIX)) if name not in listed and prefix in metadata.schema_string
    )
    if not void:
        return metadata
    fields = parse_schema(metadata.schema_string).fields
    plain = (replace(f, metadata={k: v for k, v in f.metadata.items() if not k.startswith(void)}) for f in fields)
    return replace(metadata, schema_string=schema_json(StructType(tuple(plain))))


def supporting(protocol: Protocol, metadata: Metadata) -> Protocol:
    """The protocol with the features that delta-spark, too, adds to a table by itself, where its columns and properties need them."""
    listed = writer_features(protocol)
    asked = {
        "variantType": "variant" in type_names(parse_schema(metadata.schema_string)),
        "variantShredding": is_true(metadata.configuration, "delta.enableVariantShredding"),
    }
    added = {name for name, needed in asked.items() if needed and not listed & {name, f"{name}-preview"}}
    if "variantShredding" in added:
        added = added - {"variantShredding"} | {"variantShredding-preview"}  # the name that delta-spark 4.4 gives it
    return lowest_protocol(reader_features(protocol) | added, listed | added) if added else protocol


def protocol_for_new_table(configuration: Mapping[str, str], clustered: bool = False, columns: Collection[str] = ()) -> Protocol:
    """The protocol of a new table with these properties, as delta-spark 4.x writes it.

    `clustered`: whether it has clustering columns; `columns`: the features that its columns need (`features_of_columns`).
    Raises UnsupportedFeature for a feature in the properties that this version cannot write, InvalidInput for a version there that is none.
    """
    writer = {f.name for f in FEATURES if f.asked(configuration)} | named_in(configuration) | set(columns) | ({"clustering"} if clustered else set())
    asked = features_of_versions(_version_in(configuration, MIN_READER_VERSION, "1"), _version_in(configuration, MIN_WRITER_VERSION, "2"))
    writers = _with_needed(writer | asked)
    return lowest_protocol(writers & READABLE, writers)


def _version_in(configuration: Mapping[str, str], name: str, otherwise: str) -> int:
    """A version of the protocol that properties name, which another writer may have stored unasked."""
    text = configuration.get(name, otherwise)
    if problem := DELTA_PROPERTIES[name].problem(text):
        raise InvalidInput(f"property {name} = {text!r} is not possible: {problem}. Where the table has it, ALTER TABLE ... UNSET TBLPROPERTIES ('{name}')")
    return int(text)


def named_in(configuration: Mapping[str, str]) -> set[str]:
    """The features that properties `delta.feature.*` name, in any letters, as they are spelled.  Raises UnsupportedFeature for one that this version cannot write."""
    spelled = {name.lower(): name for name in WRITABLE}
    given = [k[len(FEATURE_PREFIX) :] for k, v in configuration.items() if k.lower().startswith(FEATURE_PREFIX) and v.lower() in FEATURE_VALUES]
    if unknown := [name for name in given if name.lower() not in spelled]:
        raise _refusal(unknown[0], "write", None, named("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", configs=FEATURE_PREFIX + unknown[0]))
    return {spelled[name.lower()] for name in given}


def _with_needed(names: Collection[str]) -> frozenset[str]:
    """The features with those that they depend on."""
    return frozenset(names) | {needed for name in names if (needed := _BY_NAME[name].needs) is not None}


def features_of_versions(reader: int, writer: int) -> frozenset[str]:
    """The features that a table with these versions in its properties must support; none where one of the versions lists its features by name."""
    if writer >= MAX_WRITER_VERSION:
        return frozenset()
    return writer_features(Protocol(reader, writer))


def without_protocol_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties but for those that name versions and features of the protocol, which the protocol holds."""
    return {k: v for k, v in configuration.items() if k not in (MIN_READER_VERSION, MIN_WRITER_VERSION) and not k.lower().startswith(FEATURE_PREFIX)}


def listing(readers: frozenset[str], writers: frozenset[str]) -> Protocol:
    """The protocol that lists these features by name; reader features get a list only if there are others than column mapping."""
    needs_list = bool(readers - {"columnMapping"})
    return Protocol(3 if needs_list else 2 if readers else 1, 7, readers if needs_list else None, readers | writers)


def with_versions(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The protocol raised to these reader and writer versions, never lowered; its features stay listed.

    Raises InvalidInput for versions that do not exist or do not go together.
    """
    if not (1 <= reader <= MAX_READER_VERSION and 1 <= writer <= MAX_WRITER_VERSION):
        text = f"there is no protocol with reader version {reader} and writer version {writer}: reader versions are 1 to {MAX_READER_VERSION}, writer versions 1 to {MAX_WRITER_VERSION}"
        raise InvalidInput(text)
    if writer < {1: 1, 2: 5, 3: 7}[reader]:
        raise InvalidInput(f"reader version {reader} needs writer version {5 if reader == 2 else 7} or above, not {writer}")
    asked = Protocol(reader, writer, frozenset() if reader == 3 else None, frozenset() if writer == 7 else None)
    readers, writers = reader_features(protocol) | reader_features(asked), writer_features(protocol) | writer_features(asked)
    highest = max(protocol.min_reader_version, reader), max(protocol.min_writer_version, writer)
    if highest[1] < 7:
        return Protocol(*highest)
    return Protocol(*highest, readers if highest[0] == 3 else None, writers | readers)


def with_feature(protocol: Protocol, name: str) -> Protocol:
    """The protocol with one more feature, and those that it depends on.  Raises UnsupportedFeature if this version cannot write it."""
    if name not in WRITABLE:
        raise _refusal(name, "write", None)
    added = _with_needed({name})
    if added <= writer_features(protocol):
        return protocol
    return lowest_protocol(reader_features(protocol) | (added & READABLE), writer_features(protocol) | added)


def lowest_protocol(readers: frozenset[str], writers: frozenset[str]) -> Protocol:
    """The lowest protocol with exactly these features: a legacy version if one matches."""
    for version in range(MAX_WRITER_VERSION):
        reader = 2 if "columnMapping" in readers else 1
        legacy = Protocol(reader, version)
        if version and reader_features(legacy) == readers and writer_features(legacy) == writers:
            return legacy
    return listing(readers, writers)


Verdict = Literal["yes", "alone", "no"]
_DELTA_RS_WRITES = frozenset({
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "deletionVectors",
    "timestampNtz", "v2Checkpoint", "variantType", "variantType-preview",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Whether another engine may write the table: `yes` (at the same time), `alone` (only while no other engine writes) or `no`, and why."""

    engine: str
    verdict: Verdict
    why: str


def store_kind(root: str) -> Literal["local", "s3", "other"]:
    """The kind of store that a table is on, as far as it matters for commits."""
    scheme = scheme_of(root)
    if scheme in (None, "file"):
        return "local"
    return "s3" if scheme in ("s3", "s3a", "s3n") else "other"


def refused_by_delta_rs(protocol: Protocol) -> tuple[str, ...]:
    """The table's features because of which delta-rs 1.6 refuses to write it."""
    return tuple(sorted((writer_features(protocol) | reader_features(protocol)) - _DELTA_RS_WRITES))


def neighbours(protocol: Protocol, root: str, *, arbitrated: bool) -> tuple[Neighbour, ...]:
    """Whether delta-spark and delta-rs may write this table beside Rowlock.  `arbitrated`: commits go through the DynamoDB arbiter."""
    return (_delta_spark(root, arbitrated), _delta_rs(protocol, arbitrated))


def _delta_spark(root: str, arbitrated: bool) -> Neighbour:
    name = "delta-spark"
    if arbitrated:
        text = "with io.delta.storage.S3DynamoDBLogStore on the same DynamoDB table and region; without it its commits bypass the arbiter"
        return Neighbour(name, "yes", text)
    if store_kind(root) == "local":
        return Neighbour(name, "alone", "on a local disk it checks that a version is absent and then renames, which can overwrite another writer's commit")
    if store_kind(root) == "s3":
        return Neighbour(
            name,
            "alone",
            "its LogStore for S3 orders commits within one driver only; to share the table use the DynamoDB arbiter (AWS_S3_LOCKING_PROVIDER=dynamodb here, S3DynamoDBLogStore there)",
        )
    return Neighbour(name, "yes", "its LogStore creates a version only if it is absent")


def _delta_rs(protocol: Protocol, arbitrated: bool) -> Neighbour:
    name = "delta-rs 1.6"
    if refused := refused_by_delta_rs(protocol):
        return Neighbour(name, "no", f"it refuses tables with {', '.join(refused)}")
    if arbitrated:
        return Neighbour(name, "no", "it no longer uses DynamoDB, so its commits bypass the arbiter")
    return Neighbour(name, "yes", "it puts a version only if it is absent")
