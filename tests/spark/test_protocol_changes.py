"""The table's protocol changed by name, and manifests: what was asked for is what delta-spark sees, and what cannot be honest is refused before anything is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, StatementRefused, UnsupportedFeature
from spark.support import delta_rows, delta_spark_rows, make, read, unchanged, version

pytestmark = pytest.mark.spark

PLAIN = {"delta.enableDeletionVectors": "false"}


def described(spark, path):
    """What delta-spark says of the protocol, and what Rowlock says: the same."""
    found = [
        (d.minReaderVersion, d.minWriterVersion, sorted(d.tableFeatures))
        for d in (spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first(), DeltaTable.forPath(spark, path).detail().first())
    ]
    assert found[0] == found[1]
    return found[0]


# ---- versions ------------------------------------------------------------------------------------


@pytest.mark.soak("delta-spark beside it, version by version; what a protocol may become is asked without Spark", ci=True)
def test_versions_go_up_and_never_down(spark, table_path):
    table = make(spark, table_path, [(1,)], "id int", **PLAIN)
    assert described(spark, table_path)[:2] == (1, 2)
    table.upgradeTableProtocol(1, 3)
    assert described(spark, table_path) == (1, 3, ["appendOnly", "checkConstraints", "invariants"])
    assert table.lastReceipt.version == version(table_path)
    with unchanged(table_path):
        for lower in ((1, 2), (1, 3), (1, 1)):
            table.upgradeTableProtocol(*lower)
            assert table.lastReceipt.version is None
    table.upgradeTableProtocol(3, 7)
    assert described(spark, table_path) == (3, 7, ["appendOnly", "checkConstraints", "invariants"])
    table.update(set={"id": "id + 1"})
    spark.sql(f"INSERT INTO delta.`{table_path}` VALUES (9)")
    assert read(spark, table_path) == delta_rows(spark, table_path) == [(2,), (9,)]
    assert table.history().where("operation = 'UPGRADE PROTOCOL'").count() == 2


def test_a_table_with_features_takes_those_of_a_legacy_version(spark, table_path):
    table = make(spark, table_path, [(1,)], "id int")
    table.upgradeTableProtocol(2, 5)
    reader, writer, features = described(spark, table_path)
    assert (reader, writer) == (3, 7)
    assert {"deletionVectors", "columnMapping", "checkConstraints", "changeDataFeed"} <= set(features)
    table.delete("id = 1")
    assert delta_rows(spark, table_path) == []


@pytest.mark.parametrize("versions", [(0, 2), (4, 7), (1, 8), (2, 4), (3, 6), ("1", 2), (1, [2]), (True, 2)])
def test_versions_that_do_not_exist(spark, table_path, versions):
    table = make(spark, table_path, [(1,)], "id int", **PLAIN)
    with unchanged(table_path), pytest.raises(ValueError, match="ersion"):
        table.upgradeTableProtocol(*versions)


# ---- features ------------------------------------------------------------------------------------


def test_features_are_added_in_any_spelling(spark, table_path):
    table = make(spark, table_path, [(1,), (2,)], "id int", **PLAIN)
    with unchanged(table_path):
        table.addFeatureSupport("appendonly")
    table.addFeatureSupport("DeletionVectors")
    assert described(spark, table_path) == (3, 7, ["appendOnly", "deletionVectors", "invariants"])
    table.addFeatureSupport("clustering")
    assert described(spark, table_path)[2] == ["appendOnly", "clustering", "deletionVectors", "domainMetadata", "invariants"]
    table.setProperties({"delta.enableDeletionVectors": "true"})
    table.delete("id = 1")
    assert [f.deletion_vector is not None for f in table._handle.state.refresh().files.adds()] == [True]
    assert delta_rows(spark, table_path) == [(2,)]


def test_a_feature_that_could_not_be_written_is_refused_by_its_name(spark, table_path):
    table = make(spark, table_path, [(1,)], "id int")
    with unchanged(table_path):
        for name in ("icebergCompatV1", "icebergCompatV2", "no such thing"):
            with pytest.raises(UnsupportedFeature, match=name) as e:
                table.addFeatureSupport(name)
            assert e.value.feature == name
        with pytest.raises(ValueError, match="string"):
            table.addFeatureSupport(7)


def test_a_partitioned_table_is_not_clustered(spark, table_path):
    table = make(spark, table_path, [(1, 1)], "id int, p int", partition_by=["p"])
    with unchanged(table_path), pytest.raises(StatementRefused, match="clustering"):
        table.addFeatureSupport("clustering")


def test_row_tracking_as_a_feature_gives_new_rows_ids(spark, table_path):
    table = make(spark, table_path, [(1,)], "id int")
    table.addFeatureSupport("rowTracking")
    rowlock.write(spark.createDataFrame([(2,)], "id int"), table_path)
    assert sorted(f.base_row_id is None for f in table._handle.state.refresh().files.adds()) == [False, True]
    assert delta_rows(spark, table_path) == [(1,), (2,)]


# ---- features that are dropped -------------------------------------------------------------------

PLAIN_FEATURES = ["appendOnly", "invariants"]
DROPPED = {
    "checkConstraints": {},
    "domainMetadata": {},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "rowTracking": {"delta.enableRowTracking": "true"},
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
    "vacuumProtocolCheck": {},
}
GUARDED = {"columnMapping", "deletionVectors", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"}
"""Those that older versions cannot be read without: with them comes the feature checkpointProtection."""


def with_feature(spark, path, name):
    """A table that has the feature and uses it, of 3 rows of which one is deleted."""
    properties = {"delta.feature." + name: "supported", **PLAIN, **DROPPED[name]}
    table = make(spark, path, [(1, 1), (2, 2), (3, 3)], "id int, v int", **properties)
    table.delete("id = 2")
    if name == "typeWidening":
        rowlock.sql(spark, f"ALTER TABLE delta.`{path}` ALTER COLUMN v TYPE BIGINT")
    if name == "columnMapping":
        table.renameColumn("v", "w")
    return table


def operations(spark, path):
    return [r.operation for r in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("operation").collect()]


@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.short(
    ci=(
        "inCommitTimestamp",
        "deletionVectors",
    ),
    why="a copy that delta-spark changes; what is left of a feature is in tests/unit/transaction/definition/test_table_features.py",
)
def test_a_feature_is_dropped_as_by_delta_spark(spark, table_path, name):
    """Rows, protocol, properties and the versions that are made on the way, beside delta-spark's on a copy."""
    table, twin = with_feature(spark, table_path, name), table_path + "_twin"
    shutil.copytree(table_path, twin)
    table.dropFeatureSupport(name.upper())
    spark.sql(f"ALTER TABLE delta.`{twin}` DROP FEATURE {name}")
    assert described(spark, table_path) == described(spark, twin)
    left = described(spark, table_path)[2]
    assert name not in left and ("checkpointProtection" in left) == (name in GUARDED)
    assert operations(spark, table_path) == operations(spark, twin)
    ours, theirs = (spark.sql(f"DESCRIBE DETAIL delta.`{p}`").first().properties for p in (table_path, twin))
    assert ours == theirs
    table.update(set={"id": "id + 1"})
    assert read(spark, table_path) == delta_spark_rows(spark, table_path) == [(2, 1), (4, 3)]
    assert sorted(spark.read.format("delta").option("versionAsOf", 0).load(table_path).collect()) == []


def aged(path):
    """Makes the log two days older."""
    for file in Path(path, "_delta_log").iterdir():
        at = file.stat().st_mtime - 2 * 86_400
        os.utime(file, (at, at))


@pytest.mark.soak("a rewrite of every file; which features can be dropped, and what each leaves, is in tests/unit/transaction/definition", ci=True)
def test_type_widening_goes_with_its_history(spark, table_path):
    """First nothing is left of it in the newest version, then the log waits for its retention, then versions that used it go, and the feature with them."""
    table = with_feature(spark, table_path, "typeWidening")
    drop = f"ALTER TABLE delta.`{table_path}` DROP FEATURE typeWidening TRUNCATE HISTORY"
    for condition in ("DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD", "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"):
        with pytest.raises(StatementRefused, match="24 hours") as e:
            rowlock.sql(spark, drop)
        assert e.value.getCondition() == condition
        assert "typeWidening" in described(spark, table_path)[2]
    assert read(spark, table_path) == delta_rows(spark, table_path) == [(1, 1), (3, 3)]
    written = [pq.read_schema(f"{table_path}/{f.path}").field("v").type for f in table._handle.state.refresh().files.adds()]
    assert written and all(t == pa.int64() for t in written)
    aged(table_path)
    rowlock.sql(spark, drop)
    assert described(spark, table_path) == (1, 2, PLAIN_FEATURES)
    assert delta_spark_rows(spark, table_path) == [(1, 1), (3, 3)]
    assert "CHANGE COLUMN" not in operations(spark, table_path)


def test_a_feature_that_cannot_go_is_named(spark, table_path):
    table = make(spark, table_path, [(1, 1)], "id int, v int", **{"delta.enableInCommitTimestamps": "true"})
    spark.sql(f"ALTER TABLE delta.`{table_path}` ADD CONSTRAINT positive CHECK (id > 0)")
    DeltaTable.createOrReplace(spark).location(table_path + "_2").addColumn("id", "int").clusterBy("id").execute()
    clustered = DeltaTable.forPath(spark, table_path + "_2")
    lockless = make(spark, table_path + "_3", [(1,)], "id int", **{"delta.enableRowTracking": "true", "rowlock.onConflict": "lockless"})
    cases = [
        (table, "checkConstraints", "positive"),
        (table, "appendOnly", "appendOnly"),
        (table, "rowTracking", "does not list it"),
        (table, "no_such_feature", "not known"),
        (table, "delta.appendOnly", "UNSET TBLPROPERTIES"),
        (clustered, "domainMetadata", "clustering"),
        (clustered, "clustering", "clustering"),
        (lockless, "rowTracking", "lockless"),
    ]
    with unchanged(table_path), unchanged(table_path + "_2"), unchanged(table_path + "_3"):
        for which, name, text in cases:
            with pytest.raises(StatementRefused, match=text) as e:
                which.dropFeatureSupport(name)
            assert e.value.what == name
        with pytest.raises(StatementRefused, match="truncate"):
            table.dropFeatureSupport("inCommitTimestamp", True)
        with pytest.raises(ValueError, match="truncateHistory"):
            table.dropFeatureSupport("checkConstraints", "yes")


# ---- manifests -----------------------------------------------------------------------------------


def manifests(path: str) -> dict[str, list[str]]:
    root = Path(path, "_symlink_format_manifest")
    return {str(f.parent.relative_to(root)): sorted(f.read_text().splitlines()) for f in root.rglob("manifest")}


def files_of(table: DeltaTable) -> list[str]:
    snapshot = table._handle.state.refresh()
    return sorted(f"file:{table._handle.path}/{f.path}" for f in snapshot.files.adds())


def test_a_manifest_names_the_live_files(spark, table_path):
    table = make(spark, table_path, [(n, "x") for n in range(6)], "id int, v string", files=3, **PLAIN)
    table.delete("id = 1")
    table.generate("symlink_format_manifest")
    assert {k: sorted(v) for k, v in manifests(table_path).items()} == {".": files_of(table)}
    listed = [line.removeprefix("file:") for line in manifests(table_path)["."]]
    assert sorted(r.id for r in spark.read.parquet(*listed).collect()) == [0, 2, 3, 4, 5]
    table.delete()
    table.generate("SYMLINK_FORMAT_MANIFEST")
    assert manifests(table_path) == {".": []}


@pytest.mark.soak("beside delta-spark; what a manifest names is in the test before it", ci=True)
def test_each_partition_has_a_manifest_as_delta_spark_writes_it(spark, table_path):
    table = make(spark, table_path, [(1, "a b"), (2, "c/d"), (3, None)], "id int, p string", partition_by=["p"], **PLAIN)
    table.generate("symlink_format_manifest")
    ours = manifests(table_path)
    assert len(ours) == 3
    spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{table_path}`")
    assert manifests(table_path) == ours
    table.delete("id = 1")
    table.generate("symlink_format_manifest")
    assert sorted(manifests(table_path)) == sorted(set(ours) - {"p=a b"})


def test_manifests_that_would_lie_are_refused(spark, table_path, tmp_path):
    table = make(spark, table_path, [(1,), (2,)], "id int")
    table.delete("id = 1")
    with pytest.raises(StatementRefused, match="deletion vector"):
        table.generate("symlink_format_manifest")
    with pytest.raises(InvalidInput, match="Supported modes"):
        table.generate("other")
    mapped = make(spark, str(tmp_path / "mapped"), [(1,)], "id int", **{"delta.columnMapping.mode": "name"})
    with pytest.raises(StatementRefused, match="columns"):
        mapped.generate("symlink_format_manifest")
    assert not list(tmp_path.rglob("_symlink_format_manifest"))
    table.optimize().executeCompaction()
    table.generate("symlink_format_manifest")
    assert manifests(table_path) == {".": files_of(table)}


MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"


@pytest.mark.soak("every statement with a manifest after it; what it names stays above", ci=True)
def test_manifests_follow_each_commit(spark, table_path):
    """Of appends without Spark and of statements; they are those that delta-spark's GENERATE writes."""
    table = make(spark, table_path, [(n, p) for n in range(4) for p in "xy"], "id bigint, p string", partition_by=["p"], files=2, **{MANIFESTS: "true"})
    assert table.detail().first()["properties"] == {MANIFESTS: "true"}  # and no deletion vectors
    steps = [
        lambda: table.delete("p = 'x'"),
        lambda: table.update("id = 1", {"id": "id + 10"}),
        lambda: rowlock.append(table_path, pa.table({"id": [1], "p": ["z"]})),
    ]
    for step in steps:
        step()
        ours = manifests(table_path)
        assert sorted(line for lines in ours.values() for line in lines) == files_of(table)
    spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{table_path}`")
    assert manifests(table_path) == ours
    table.setProperties({MANIFESTS: "false"})
    table.delete()
    assert manifests(table_path) == ours


def test_manifests_and_what_they_cannot_say_are_refused_together(spark, table_path, tmp_path):
    for other in ({"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}):
        with pytest.raises(InvalidInput, match="manifest") as e:
            make(spark, str(tmp_path / "refused"), [(1,)], "id int", **{MANIFESTS: "true"}, **other)
        assert e.value.getCondition().startswith(("DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.PERSISTENT", "DELTA_UNSUPPORTED_MANIFEST_GENERATION"))
    table = make(spark, table_path, [(1,), (2,)], "id int")
    table.delete("id = 1")
    with unchanged(table_path):
        with pytest.raises(InvalidInput, match="deleted"):
            table.setProperties({MANIFESTS: "true"})
        with pytest.raises(StatementRefused, match="PURGE"):
            table.setProperties({MANIFESTS: "true", "delta.enableDeletionVectors": "false"})
    table.setProperties({"delta.enableDeletionVectors": "false"})
    rowlock.sql(spark, f"REORG TABLE delta.`{table_path}` APPLY (PURGE)")
    table.setProperties({MANIFESTS: "true"})
    rowlock.append(table_path, pa.table({"id": pa.array([3], pa.int32())}))
    assert sorted(manifests(table_path)["."]) == files_of(table)
