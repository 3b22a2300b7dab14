"""What can be read and written is said by name (I9)."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from rowlock.exceptions import CorruptLog, InvalidInput, SchemaMismatch, UnsupportedFeature
from rowlock.protocol import arrow_types, schema
from rowlock.protocol.actions import Metadata, Protocol
from rowlock.protocol.features import check_readable, check_writable, protocol_for_new_table, vectors_allowed
from rowlock.protocol.properties import TableProperties, interval_ms, validate_properties, validate_together
from rowlock.protocol.statistics import check_stats_columns


def metadata(field: str = "{}", nullable: str = "true", **configuration: str) -> Metadata:
    text = f'{{"type":"struct","fields":[{{"name":"a","type":"long","nullable":{nullable},"metadata":{field}}}]}}'
    return Metadata("id", text, (), {f"delta.{k.replace('__', '.')}": v for k, v in configuration.items()})


def features(*names: str, reader: tuple[str, ...] = ()) -> Protocol:
    return Protocol(3 if reader else 1, 7, frozenset(reader) if reader else None, frozenset(names) | frozenset(reader))


WRITABLE = [
    (Protocol(1, 2), metadata()),
    (Protocol(1, 6), metadata()),
    (Protocol(1, 3), metadata(constraints__positive="a > 0")),
    (Protocol(1, 2), metadata('{"delta.invariants":"{\\"expression\\":{\\"expression\\":\\"a > 0\\"}}"}')),
    (Protocol(2, 5), metadata()),
    (Protocol(2, 5), metadata(columnMapping__mode="name")),
    (features("invariants", "appendOnly", reader=("deletionVectors",)), metadata(nullable="false")),
    (features("clustering", "domainMetadata"), metadata()),
    (features("checkConstraints", "generatedColumns", "changeDataFeed", "identityColumns", "allowColumnDefaults", "inCommitTimestamp"), metadata()),
    (Protocol(1, 4), metadata('{"delta.generationExpression":"1"}')),
    (features("generatedColumns"), metadata('{"delta.generationExpression":"1"}')),
    (features("allowColumnDefaults"), metadata('{"CURRENT_DEFAULT":"1"}')),
    (features("inCommitTimestamp"), metadata(enableInCommitTimestamps="true")),
    (features("changeDataFeed"), metadata(enableChangeDataFeed="false")),
    (Protocol(1, 4), metadata(enableChangeDataFeed="true")),
    (features(reader=("columnMapping",)), metadata(columnMapping__mode="none")),
    (features(reader=("vacuumProtocolCheck",)), metadata()),
    (features(reader=("typeWidening",)), metadata(enableTypeWidening="true")),
    (features("rowTracking", "domainMetadata"), metadata()),
    (features("rowTracking", "domainMetadata"), metadata(rowTrackingSuspended="true")),
]
ONLY_READABLE = [
    ("generatedColumns", Protocol(1, 3), metadata('{"delta.generationExpression":"1"}')),
    ("generatedColumns", features("checkConstraints"), metadata('{"delta.generationExpression":"1"}')),
    ("identityColumns", Protocol(1, 6), metadata('{"delta.identity.start":1}')),
    ("allowColumnDefaults", features("identityColumns"), metadata('{"CURRENT_DEFAULT":"1"}')),
    ("invariants", Protocol(1, 2), metadata('{"delta.invariants":"{}"}')),
    (
        "inCommitTimestamp-preview",
        features("inCommitTimestamp-preview"),
        Metadata("id", metadata().schema_string, (), {"delta.enableInCommitTimestamps-preview": "true"}),
    ),
    ("rowTracking", features("domainMetadata"), metadata(enableRowTracking="true")),
    ("rowTracking", features("rowTracking", "domainMetadata"), metadata(enableRowTracking="true")),
    ("rowTracking", features("rowTracking", "domainMetadata"), metadata(enableRowTracking="true", rowTrackingSuspended="true")),
    ("icebergCompatV2", features("icebergCompatV2"), metadata()),
    (
        "what needs variantType, which the protocol does not list",
        features("invariants"),
        replace(metadata(), schema_string=metadata().schema_string.replace("long", "variant")),
    ),
    ("what needs variantShredding-preview, which the protocol does not list", features("invariants"), metadata(enableVariantShredding="true")),
    ("somethingNew", features("somethingNew"), metadata()),
    ("writer version 8", Protocol(1, 8), metadata()),
]
UNREADABLE = [
    ("catalogManaged", features(reader=("catalogManaged",))),
    ("somethingNew", features(reader=("somethingNew",))),
    ("reader version 4", Protocol(4, 7)),
]


@pytest.mark.parametrize(("protocol", "table"), WRITABLE)
def test_writable(protocol: Protocol, table: Metadata) -> None:
    check_writable(protocol, table)


@pytest.mark.parametrize(("feature", "protocol", "table"), ONLY_READABLE)
def test_only_readable(feature: str, protocol: Protocol, table: Metadata) -> None:
    check_readable(protocol, table)
    with pytest.raises(UnsupportedFeature) as e:
        check_writable(protocol, table, "/t")
    assert e.value.feature.startswith(feature) and e.value.access == "write" and e.value.table == "/t"


@pytest.mark.parametrize(("feature", "protocol"), UNREADABLE)
def test_unreadable(feature: str, protocol: Protocol) -> None:
    with pytest.raises(UnsupportedFeature) as e:
        check_readable(protocol, metadata())
    assert e.value.feature == feature and e.value.access == "read"


def test_new_tables() -> None:
    assert protocol_for_new_table({}) == Protocol(1, 2)
    vectors = protocol_for_new_table({"delta.enableDeletionVectors": "true"})
    assert vectors == Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors", "invariants", "appendOnly"}))
    assert protocol_for_new_table({}, clustered=True) == Protocol(1, 7, None, frozenset({"clustering", "domainMetadata", "invariants", "appendOnly"}))
    assert vectors_allowed(vectors, metadata(enableDeletionVectors="true"))
    assert not vectors_allowed(vectors, metadata()) and not vectors_allowed(Protocol(1, 2), metadata(enableDeletionVectors="true"))


LEGACY_5 = ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, Protocol(2, 5)),
        ({"delta.minReaderVersion": "2"}, Protocol(1, 2)),
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "1"}, Protocol(1, 1)),
        ({"delta.minWriterVersion": "4"}, Protocol(1, 4)),
        ({"delta.minWriterVersion": "5"}, Protocol(1, 4)),
        ({"delta.minWriterVersion": "6"}, Protocol(1, 6)),
        (
            {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2", "delta.enableChangeDataFeed": "true"},
            features("appendOnly", "invariants", "changeDataFeed"),
        ),
        ({"delta.minReaderVersion": "3", "delta.minWriterVersion": "7", "delta.enableDeletionVectors": "true"}, features(reader=("deletionVectors",))),
        (
            {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5", "delta.enableDeletionVectors": "true"},
            Protocol(3, 7, frozenset({"deletionVectors", "columnMapping"}), frozenset({*LEGACY_5, "deletionVectors"})),
        ),
    ],
)
def test_versions_among_the_properties_of_a_new_table(properties: dict[str, str], expected: Protocol) -> None:
    """What delta-spark 4.4.0 makes of them: all features of these versions, listed by name where one more is needed, else the lowest versions that have them."""
    validate_properties(properties)
    assert protocol_for_new_table(properties) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.minReaderVersion", "4"),
        ("delta.minWriterVersion", "8"),
        ("delta.minWriterVersion", "abc"),
        ("rowlock.onConflict", "maybe"),
        ("rowlock.isolation", "WriteSerializable"),
        ("delta.isolationLevel", "write_serializable"),
        ("rowlock.lock", "always"),
        ("rowlock.lockTimeout", "soon"),
        ("rowlock.lockTerm", "0 seconds"),
        ("rowlock.speed", "fast"),
        ("delta.enableDeletionVector", "true"),
        ("delta.enableDeletionVectors", "yes"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "often"),
        ("delta.logRetentionDuration", "long"),
        ("delta.columnMapping.mode", "maybe"),
    ],
)
def test_wrong_properties_are_named(name: str, value: str) -> None:
    with pytest.raises(InvalidInput) as e:
        validate_properties({name: value})
    assert name in str(e.value) and value in str(e.value)


@pytest.mark.parametrize(
    ("log", "files", "possible"),
    [
        ("6 days", None, False),
        ("7 days", None, True),
        (None, "31 days", False),
        (None, "30 days", True),
        ("2 days", "49 hours", False),
        ("2 days", "48 hours", True),
        (None, None, True),
    ],
)
def test_the_log_is_kept_as_long_as_deleted_files(log: str | None, files: str | None, possible: bool) -> None:
    """As in delta-spark: what a statement sets is compared with what else it sets, or with the default, and not with what the table has."""
    names = {"delta.logRetentionDuration": log, "delta.deletedFileRetentionDuration": files}
    given = {name: f"interval {value}" for name, value in names.items() if value is not None}
    table = {"delta.logRetentionDuration": "interval 1 day"}
    if possible:
        return validate_together({**table, **given}, given=given)
    with pytest.raises(InvalidInput, match="UNSUPPORTED_TABLE_CHANGE") as e:
        validate_together({**table, **given}, given=given)
    assert all(name in str(e.value) for name in names)


def test_right_properties() -> None:
    validate_properties(
        {
            "rowlock.onConflict": "fail",
            "rowlock.granularity": "file",
            "rowlock.lock": "partition",
            "rowlock.lockProvider": "dynamodb:leases",
            "rowlock.lockTimeout": "interval 90 seconds",
            "delta.appendOnly": "TRUE",
            "delta.dataSkippingNumIndexedCols": "-1",
            "owner": "me",
            "delta.constraints.c": "a > 0",
        }
    )
    properties = TableProperties({"delta.checkpointInterval": "5", "delta.appendOnly": "true", "delta.dataSkippingStatsColumns": "a, b.c"})
    assert (properties.checkpoint_interval, properties.append_only, properties.stats_columns, properties.num_indexed_columns) == (5, True, ("a", "b.c"), 32)
    assert (properties.on_conflict, properties.isolation, properties.granularity, properties.lock) == ("repair", "serializable", "row", "none")
    assert interval_ms("interval 1 week") == 604_800_000 and interval_ms("2 hours 30 minutes") == 9_000_000


@pytest.mark.parametrize("name", ["rowlock.lockProvider", "rowlock.lockprovider"])
@pytest.mark.parametrize("value", ["postgresql://me:hunter2@db/x", "postgres://me:hunter2@db/x", "host=db password=hunter2", "dynamodb:hunter2 "])
def test_how_to_reach_a_lock_provider_is_never_written_nor_shown(name: str, value: str) -> None:
    with pytest.raises(InvalidInput) as e:
        validate_properties({name: value})
    assert "hunter2" not in str(e.value) and name in str(e.value)
    assert TableProperties({name: value}).lock_provider == "object", "nor is it believed where another engine wrote it"


EVERYTHING = schema.StructType(
    (
        *(schema.StructField(f"c_{name}", schema.PrimitiveType(name), False) for name in sorted(schema.PRIMITIVES - {schema.VOID, "variant"})),
        schema.StructField("d", schema.DecimalType(20, 3)),
        schema.StructField("s", schema.StructType((schema.StructField("x", schema.ArrayType(schema.PrimitiveType("long"), False)),))),
        schema.StructField("m", schema.MapType(schema.PrimitiveType("string"), schema.DecimalType(5, 1))),
    )
)


def test_schemas_round_trip() -> None:
    assert schema.parse_schema(schema.schema_json(EVERYTHING)) == EVERYTHING
    described = schema.StructType((schema.StructField("a", schema.PrimitiveType("long"), metadata={"comment": "x"}),))
    assert schema.parse_schema(schema.schema_json(described)) == described
    assert arrow_types.from_arrow(arrow_types.to_arrow(EVERYTHING)) == EVERYTHING
    assert EVERYTHING.find("C_LONG") is EVERYTHING.find("c_long") is not None
    assert [p for p, _ in EVERYTHING.leaves()][-2:] == [("s", "x"), ("m",)]


@pytest.mark.parametrize("name", ["interval day to second", "geometry"])
def test_unknown_types_are_named(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=name):
        schema.parse_schema(metadata().schema_string.replace('"long"', f'"{name}"'))
    with pytest.raises(CorruptLog):
        schema.parse_schema("{}")


def test_impossible_schemas() -> None:
    def struct(*names: str) -> schema.StructType:
        return schema.StructType(tuple(schema.StructField(n, schema.PrimitiveType("long")) for n in names))

    nested = schema.StructType((schema.StructField("s", struct("x", "X")), schema.StructField("a", schema.PrimitiveType("long"))))
    for bad, partitions in (
        (struct("a", "A"), ()),
        (struct("a", "a"), ()),
        (struct("a b"), ()),
        (struct("a"), ("b",)),
        (struct("a"), ("a",)),
        (nested, ()),
        (struct(), ("a",)),
    ):
        with pytest.raises(SchemaMismatch):
            schema.validate_new_schema(bad, partitions)
    schema.validate_new_schema(struct("a b", "c"), ("c",), column_mapping=True)
    for partitions, condition in ((("C D",), "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"), (("a b", "C D"), "DELTA_INVALID_PARTITION_COLUMN_NAME")):
        with pytest.raises(SchemaMismatch, match=f"{condition}.* 'a b' holds"):  # a data column's name first, as delta-spark looks at them
            schema.validate_new_schema(struct("a b", "c d", "e"), partitions)


def test_an_empty_text_lets_no_log_be_cleaned_up() -> None:
    """Another engine may have written it; what is neither true nor false says no."""
    assert [TableProperties({} if text is None else {"delta.enableExpiredLogCleanup": text}).cleans_log for text in (None, " True", "", "yes")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_feature_is_asked_for_by_two_words_in_any_case() -> None:
    """delta-spark takes them so; another word asked for nothing here once, and was not stored either."""
    assert "domainMetadata" in (protocol_for_new_table({"delta.Feature.DOMAINMETADATA": "ENABLED"}).writer_features or ())
    validate_properties({"delta.feature.appendOnly": "Supported"})
    for value in ("perhaps", "", "true"):
        with pytest.raises(InvalidInput, match="allowed are supported, enabled") as raised:
            validate_properties({"delta.feature.appendOnly": value})
        assert raised.value.condition is not None and raised.value.condition.name == "DELTA_UNSUPPORTED_FEATURE_STATUS"


@pytest.mark.parametrize(("listed", "why"), [("a", None), ("A", None), ("b", "no column b"), ("a, a", "twice"), ("`a.b`", "no column `a.b`")])
def test_columns_of_statistics_are_there_once(listed: str, why: str | None) -> None:
    given = {"delta.dataSkippingStatsColumns": listed}
    with contextlib.nullcontext() if why is None else pytest.raises(InvalidInput, match=why):
        check_stats_columns(metadata(), given, "/t")
    check_stats_columns(metadata(dataSkippingStatsColumns=listed), {}, "/t")  # a table of others is left as it is


@pytest.mark.parametrize("name", ["delta.minReaderVersion", "delta.minWriterVersion"])
def test_a_version_among_the_properties_that_is_none_is_named(name: str) -> None:
    """Another writer may have stored one; an ALTER of such a table ended with a ValueError that named nothing."""
    with pytest.raises(InvalidInput, match=f"property {name} = 'junk' is not possible: allowed are 1, 2, 3.* UNSET TBLPROPERTIES"):
        protocol_for_new_table({name: "junk"})
