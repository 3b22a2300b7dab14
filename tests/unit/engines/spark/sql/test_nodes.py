"""What statements say, from the nodes of Spark's parser."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import CharType, StringType, TimestampType, VarcharType

from rowlock.engines.spark.sql import nodes
from rowlock.engines.spark.sql.nodes import Nodes


class Said:
    """A type in a statement."""

    def __init__(self, json: str, sql: str) -> None:
        self._json, self._sql = json, sql

    def json(self) -> str:
        return self._json

    def sql(self) -> str:
        return self._sql


class Session:
    """A session with this setting of spark.sql.charAsVarchar."""

    def __init__(self, as_varchar: str) -> None:
        self.conf = {"spark.sql.charAsVarchar": as_varchar}


def type_of(json: str, sql: str, as_varchar: str = "false") -> Any:
    made = Nodes.__new__(Nodes)
    made.spark = Session(as_varchar)  # type: ignore[assignment]
    return made.type_of(Said(json, sql))


def test_types_of_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4.0 leaves collations out of the JSON of a type, and keeps them with the column: a new column with one was made without, where it is to be refused."""
    monkeypatch.setattr(nodes, "parse_type", lambda text: ("parsed", text))
    assert type_of('"timestamp"', "TIMESTAMP") == TimestampType()
    assert type_of('"string"', "STRING") == StringType()
    assert type_of('"char(3)"', "CHAR(3)") == CharType(3)
    assert type_of('"char(3)"', "CHAR(3)", "true") == VarcharType(3)
    for text in ("STRING COLLATE UTF8_LCASE", "ARRAY<STRING COLLATE UTF8_LCASE>"):
        assert type_of('"string"', text) == ("parsed", text)
