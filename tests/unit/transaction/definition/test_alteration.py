"""What the history says of a column that an ALTER TABLE made or changed: what delta-spark 4.4 wrote for the same statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rowlock.engines.appends.engine import ArrowEngine
from rowlock.protocol.char_varchar import KEY
from rowlock.protocol.column_values import identity_metadata
from rowlock.protocol.schema import ArrayType, MapType, PrimitiveType, StructField
from rowlock.transaction.definition import alteration
from rowlock.transaction.definition.alteration import ColumnEdit
from rowlock.transaction.definition.identity import sync
from support.appends import create, info

SHORT, INT, LONG, STRING = (PrimitiveType(name) for name in ("short", "integer", "long", "string"))
NUMBERS = identity_metadata(1, 1, by_default=True)
COLUMNS = (
    StructField("id", INT, metadata={"comment": "c"}),
    StructField("w", STRING, metadata={KEY: "varchar(3)"}),
    StructField("l", ArrayType(SHORT)),
    StructField("m", MapType(SHORT, INT)),
    StructField("n", LONG, metadata=NUMBERS),
)


def test_a_change_is_told_with_all_metadata_and_without_the_types_that_there_were(tmp_path: Path) -> None:
    state = create(str(tmp_path), *COLUMNS, properties={"delta.enableTypeWidening": "true"})
    engine = ArrowEngine(state.store)

    def told(receipt: Any) -> tuple[str, Any]:
        said = info(str(tmp_path), receipt.version)
        return said["operation"], json.loads(next(iter(said["operationParameters"].values())))

    def edited(path: str, **what: Any) -> Any:
        operation, column = told(alteration.edit_columns(state, engine, [ColumnEdit((path,), **what)]))
        assert operation == "CHANGE COLUMN"
        return column["name"], column["type"], column["nullable"], column["metadata"]

    assert edited("id", like=StructField("id", LONG)) == ("id", "long", True, {"comment": "c"})
    assert edited("id", comment="d") == ("id", "long", True, {"comment": "d", "delta.typeChanges": [{"fromType": "integer", "toType": "long"}]})
    assert edited("w", comment="c") == ("w", "string", True, {KEY: "varchar(3)", "comment": "c"})
    assert edited("l", like=StructField("l", ArrayType(INT))) == ("l.element", "integer", True, {})
    assert edited("m", like=StructField("m", MapType(INT, INT))) == ("m.key", "integer", False, {})
    assert edited("n", comment="c") == ("n", "long", True, {**NUMBERS, "comment": "c"})
    added = told(alteration.add_columns(state, engine, [StructField("v", STRING, metadata={KEY: "varchar(2)"})]))
    assert added == ("ADD COLUMNS", [{"column": {"name": "v", "type": "varchar(2)", "nullable": True, "metadata": {}}}])
    synced = told(sync(state, "n", lambda head, column: 100))
    assert synced == ("CHANGE COLUMN", {"name": "n", "type": "long", "nullable": True, "metadata": {**NUMBERS, "comment": "c"}})
