"""Which changes of the mode of column mapping a table allows, and what the others are called (I9)."""

from __future__ import annotations

import itertools

import pytest

from rowlock.exceptions import InvalidInput
from rowlock.protocol.actions import Metadata
from rowlock.protocol.column_mapping import MODE, with_changed_mode
from rowlock.protocol.schema import parse_schema

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
MODES = ("none", "name", "id")


def _table(mode: str) -> Metadata:
    return Metadata(id="t", schema_string=SCHEMA, partition_columns=(), configuration={MODE: mode})


@pytest.mark.parametrize(("old", "new"), list(itertools.product(MODES, MODES)))
def test_a_change_of_the_mode_is_made_or_has_deltas_condition(old: str, new: str) -> None:
    if old == new:
        assert with_changed_mode(_table(old), _table(new), "t") == _table(new)
    elif (old, new) == ("none", "name"):
        (field,) = parse_schema(with_changed_mode(_table(old), _table(new), "t").schema_string).fields
        assert field.physical_name == "id" and field.metadata["delta.columnMapping.id"] == 1
    else:
        with pytest.raises(InvalidInput, match=f"from {old} to {new}") as caught:
            with_changed_mode(_table(old), _table(new), "t")
        assert caught.value.condition is not None and caught.value.condition.name == "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"
