"""What settings of the session say of char columns, however they are spelled, without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.catalyst.types import columns_of_frame
from rowlock.protocol.char_varchar import KEY


@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        ({}, "char(3)"),
        ({"readSideCharPadding": "True"}, "char(3)"),
        ({"readSideCharPadding": "False"}, "varchar(3)"),
        ({"charAsVarchar": "True"}, "varchar(3)"),
    ],
)
def test_settings_are_true_in_any_letters(settings: dict[str, str], bound: str) -> None:
    """Python's str(True) is a value that Spark takes: it was taken for false, so that a new table of a DataFrame had varchar(3) for char(3)."""
    session = SimpleNamespace(conf={f"spark.sql.{name}": value for name, value in settings.items()})
    frame = SimpleNamespace(schema=StructType([StructField("c", StringType(), True, {KEY: "char(3)"})]), sparkSession=session)
    assert columns_of_frame(frame).fields[0].metadata[KEY] == bound  # type: ignore[arg-type]
