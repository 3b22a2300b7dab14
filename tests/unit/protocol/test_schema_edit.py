"""Changes of a schema at any depth: what comes out, and which places are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from rowlock.protocol.schema_edit import Position, added, moved, no_field, with_columns, with_field

INT = PrimitiveType("integer")
INNER = StructType((StructField("x", INT), StructField("y", INT)))
SCHEMA = StructType((StructField("id", INT), StructField("S", INNER), StructField("a", ArrayType(INNER)), StructField("m", MapType(INNER, INNER))))
TABLE = "/lake/t"
NEW = StructField("new", INT)


@pytest.mark.parametrize(
    ("position", "names"), [(None, ("x", "y", "new")), (Position(), ("new", "x", "y")), (Position("X"), ("x", "new", "y")), (Position("y"), ("x", "y", "new"))]
)
@pytest.mark.parametrize(
    ("parent", "seen"), [(("s",), ("S",)), (("a", "element"), ("a", "element")), (("m", "key"), ("m", "key")), (("M", "Value"), ("m", "value"))]
)
def test_added(parent: tuple[str, ...], seen: tuple[str, ...], position: Position | None, names: tuple[str, ...]) -> None:
    made = added(SCHEMA, parent, NEW, position, TABLE)
    assert tuple(path[-1] for path, _ in made.all_fields() if path[:-1] == seen) == names
    assert len(list(made.all_fields())) == len(list(SCHEMA.all_fields())) + 1


def test_moved() -> None:
    assert moved(SCHEMA, ("id",), Position("ID"), TABLE) == SCHEMA  # after itself: nothing moves, as with delta-spark
    assert moved(SCHEMA, ("m",), Position(), TABLE).names == ("m", "id", "S", "a")
    assert moved(SCHEMA, ("id",), Position("A"), TABLE).names == ("S", "a", "id", "m")
    assert moved(moved(SCHEMA, ("s", "x"), Position("y"), TABLE), ("s", "x"), Position(), TABLE) == SCHEMA


def test_replaced_and_dropped() -> None:
    assert with_field(SCHEMA, ("s", "X"), lambda f: replace(f, name="z"), TABLE).resolve(("S", "z")) is not None
    assert with_field(SCHEMA, ("s", "x"), lambda f: None, TABLE).resolve(("S", "x")) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda: added(SCHEMA, ("s",), StructField("X", INT), None, TABLE),
        lambda: added(SCHEMA, ("id",), NEW, None, TABLE),
        lambda: added(SCHEMA, ("a",), NEW, None, TABLE),
        lambda: added(SCHEMA, ("nosuch",), NEW, None, TABLE),
        lambda: added(SCHEMA, (), NEW, Position("nosuch"), TABLE),
        lambda: moved(SCHEMA, ("nosuch",), Position(), TABLE),
        lambda: with_field(SCHEMA, ("s", "x"), lambda f: replace(f, name="Y"), TABLE),
        lambda: with_field(with_field(SCHEMA, ("s", "x"), lambda f: None, TABLE), ("s", "y"), lambda f: None, TABLE),
        lambda: with_field(SCHEMA, ("m", "nosuch", "x"), lambda f: None, TABLE),
    ],
)
def test_refused(change: object) -> None:
    with pytest.raises(SchemaMismatch):
        change()  # type: ignore[operator]


def test_the_condition_names_what_is_missing_of_a_path() -> None:
    with pytest.raises(SchemaMismatch) as raised:
        added(SCHEMA, ("nosuch", "x"), NEW, None, TABLE)
    assert raised.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION" and raised.value.getMessageParameters()["objectName"] == "`nosuch`"


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        (("id", "a"), "INVALID_FIELD_NAME"),
        (("id", "element", "a"), "INVALID_FIELD_NAME"),
        (("S", "x", "a"), "INVALID_FIELD_NAME"),
        (("A", "s", "x"), "INVALID_FIELD_NAME"),
        (("A", "element", "nosuch"), "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        (("S", "nosuch"), "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        (("nosuch", "a"), "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ],
)
def test_a_path_through_what_is_no_struct_has_a_condition_of_its_own(path: tuple[str, ...], condition: str) -> None:
    """As delta-spark has it for ALTER COLUMN, RENAME COLUMN and DROP COLUMN (I9)."""
    assert no_field(SCHEMA, path).name == condition


def test_columns_are_put_in_another_order_and_added() -> None:
    old = StructType((StructField("id", INT, nullable=False, metadata={"kept": 1}), StructField("S", INNER), StructField("a", ArrayType(INNER))))
    wider = StructType((StructField("Y", INT), StructField("z", INT, nullable=False), StructField("x", INT)))
    new = StructType((StructField("s", wider), StructField("ID", INT, metadata={"comment": "c"}), StructField("a", ArrayType(INNER)), StructField("b", INT)))
    made = with_columns(old, new, TABLE)
    assert [".".join(path) for path, _ in made.all_fields()][:5] == ["S", "S.y", "S.z", "S.x", "id"], "names stay as they are"
    assert made.names == ("S", "id", "a", "b")
    assert made.resolve(("id",)) == StructField("id", INT, nullable=True, metadata={"kept": 1, "comment": "c"})
    assert made.resolve(("S", "z")) == StructField("z", INT), "rows that are there have null in it"
    assert with_columns(SCHEMA, SCHEMA, TABLE) == SCHEMA


@pytest.mark.parametrize(
    "columns",
    [
        SCHEMA.fields[1:],
        (*SCHEMA.fields[:1], StructField("s", StructType((StructField("x", INT),))), *SCHEMA.fields[2:]),
        (StructField("id", PrimitiveType("long")), *SCHEMA.fields[1:]),
        (*SCHEMA.fields[:2], StructField("a", ArrayType(StructType((StructField("x", INT),)))), *SCHEMA.fields[3:]),
        (*SCHEMA.fields[:3], StructField("m", INT)),
    ],
)
def test_columns_are_neither_dropped_nor_of_another_type(columns: tuple[StructField, ...]) -> None:
    with pytest.raises(SchemaMismatch, match="DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"):
        with_columns(SCHEMA, StructType(columns), TABLE)
