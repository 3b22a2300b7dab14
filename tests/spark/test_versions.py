"""What depends on the version of Spark: Rowlock's Java source, and which versions are refused.  The guard's table: unit/engines/spark/sql/test_commands.py."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock.engines.spark.catalyst.versions import VERSIONS, java_of, version_of
from rowlock.engines.spark.session import compiled
from rowlock.exceptions import UnsupportedFeature
from support.needs import INSTALLED


@pytest.mark.parametrize("version", VERSIONS)
def test_each_text_of_java_that_a_version_changes_is_there_once(version: str) -> None:
    source = "".join(compiled.source_file(name).read_text() for name in compiled.SOURCES)
    counted = {newest: source.count(newest) for newest, _ in VERSIONS[version].java}
    assert counted == dict.fromkeys(counted, 1)
    changed = java_of(f"{version}.0", source)
    assert all(newest not in changed or newest in here for newest, here in VERSIONS[version].java)


def test_versions_are_known_by_their_first_two_numbers() -> None:
    assert all(version_of(f"{version}.7") is VERSIONS[version] for version in VERSIONS)
    assert version_of("4.1.0-SNAPSHOT") is VERSIONS["4.1"]
    assert [version_of(other) for other in ("3.5.9", "4.4.0", "4.20.0", "5.0.0")] == [None] * 4


@pytest.mark.spark
def test_another_spark_is_refused_by_name(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser().getClass().getName()
    monkeypatch.delitem(VERSIONS, INSTALLED)
    with pytest.raises(UnsupportedFeature, match=rf"Spark {', '.join(VERSIONS)}, and this is {spark.version}. Use rowlock.sql"):
        rowlock.enable(spark)
    assert spark._jsparkSession.sessionState().sqlParser().getClass().getName() == parser
