"""Which types a column may be widened to, by ALTER and by a write that evolves the schema, and how the schema records it."""

from __future__ import annotations

from itertools import product

import pytest

from rowlock.exceptions import StatementRefused
from rowlock.protocol.actions import Metadata
from rowlock.protocol.column_values import GENERATION_EXPRESSION
from rowlock.protocol.constraints import check_retyped, names_column
from rowlock.protocol.schema import TYPE_CHANGES, ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType, schema_json
from rowlock.protocol.schema_edit import owner, with_part
from rowlock.protocol.schema_fit import goes_by_name, listed_by_name, may_become, merged_schema, named_by_place, stays_in_family, type_changes, with_type

TYPES: dict[str, DataType] = {
    n: PrimitiveType(n) for n in ("byte", "short", "integer", "long", "float", "double", "string", "boolean", "date", "timestamp", "timestamp_ntz", "void")
} | {f"decimal({p},{s})": DecimalType(p, s) for p, s in ((5, 2), (9, 0), (10, 0), (10, 2), (10, 3), (12, 2), (20, 0), (22, 2))}
OF_A_FAMILY = {
    ("byte", "short integer long"),
    ("short", "integer long"),
    ("integer", "long"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
    ("decimal(5,2)", "decimal(10,2) decimal(10,3) decimal(12,2) decimal(22,2)"),
    ("decimal(9,0)", "decimal(10,0) decimal(12,2) decimal(20,0) decimal(22,2)"),
    ("decimal(10,0)", "decimal(12,2) decimal(20,0) decimal(22,2)"),
    ("decimal(10,2)", "decimal(12,2) decimal(22,2)"),
    ("decimal(12,2)", "decimal(22,2)"),
    ("decimal(20,0)", "decimal(22,2)"),
}
TO_OTHERS = {
    *((small, "double decimal(10,0) decimal(12,2) decimal(20,0) decimal(22,2)") for small in ("byte", "short", "integer")),
    ("long", "decimal(20,0) decimal(22,2)"),
}
"""And these, from whole numbers to other kinds."""


@pytest.mark.parametrize(("rule", "rows"), [(stays_in_family, OF_A_FAMILY), (may_become, OF_A_FAMILY | TO_OTHERS)])
def test_which_type_may_become_which(rule: object, rows: set[tuple[str, str]]) -> None:
    allowed = {(old, new) for old, names in rows for new in names.split()}
    assert callable(rule)
    assert {(old, new) for old, new in product(TYPES, TYPES) if rule(TYPES[old], TYPES[new])} == allowed


INT, LONG = TYPES["integer"], TYPES["long"]
CHANGE = {"fromType": "integer", "toType": "long"}


def test_changes_stand_at_the_innermost_field() -> None:
    inner = StructType((StructField("x", INT), StructField("y", TYPES["string"])))
    field = StructField(
        "f", MapType(INT, ArrayType(ArrayType(inner))), True, {"comment": "c", TYPE_CHANGES: [{"fromType": "short", "toType": "integer", "fieldPath": "key"}]}
    )
    made = with_type(field, MapType(LONG, ArrayType(ArrayType(StructType((StructField("X", LONG), StructField("y", INT)))))), may_become)
    assert made.metadata == {"comment": "c", TYPE_CHANGES: [*field.metadata[TYPE_CHANGES], CHANGE | {"fieldPath": "key"}]}
    assert isinstance(made.type, MapType) and made.type.key == LONG
    (x, y) = [f for _, f in StructType((made,)).all_fields()][1:]
    assert (x, dict(x.metadata), y) == (StructField("x", LONG, True, x.metadata), {TYPE_CHANGES: [CHANGE]}, inner.fields[1])
    assert with_type(field, field.type, may_become) == field


def test_schemas_are_merged_with_wider_types_only_where_that_is_asked_for() -> None:
    table = StructType((StructField("a", INT), StructField("s", StructType((StructField("x", INT),))), StructField("d", TYPES["decimal(5,2)"])))
    rows = StructType(
        (StructField("A", LONG), StructField("s", StructType((StructField("x", LONG), StructField("new", INT)))), StructField("d", TYPES["double"]))
    )
    assert [f.type for f in merged_schema(table, rows).fields] == [INT, StructType((StructField("x", INT), StructField("new", INT))), TYPES["decimal(5,2)"]]
    wider = merged_schema(table, rows, widening=stays_in_family)
    assert [f.type for path, f in wider.all_fields() if path[-1] in ("a", "x", "new", "d")] == [LONG, LONG, INT, TYPES["decimal(5,2)"]]
    assert [f.metadata.get(TYPE_CHANGES) for path, f in wider.all_fields() if path[-1] in ("a", "x", "s")] == [[CHANGE], None, [CHANGE]]


@pytest.mark.parametrize(
    ("expression", "path", "named"),
    [
        *(("length(CAST(ID AS STRING)) < 4", (name,), name == "id") for name in ("id", "i", "length")),
        *(("`total` + `a.b` > `x``y` OR é = 1", (name,), named) for name, named in (("Total", True), ("a.b", True), ("x`y", True), ("é", True), ("b", False))),
        *(("hash(a . x) > 0", path, path != ("a", "y")) for path in (("a",), ("a", "x"), ("a", "x", "element"), ("a", "y"))),
        *(("hash(a) > 0", path, path != ("b",)) for path in (("a",), ("a", "x"), ("b",))),
        *(("a[0].f = 1", ("a", "element", field), field == "f") for field in ("f", "g")),
        *(("m['k'] < 0", ("m", part), True) for part in ("key", "value")),
        *(("x[a] = 1 OR s.a = 2", (name,), name != "b") for name in ("a", "x", "s", "b")),
        ("b = 'a' OR b = \"a\"", ("a",), False),
        ("b = 'it\\'s' AND a = 'x'", ("a",), True),
        ("b = 1 -- it's\nAND a = 'x'", ("a",), True),
    ],
)
def test_what_an_expression_names_keeps_its_type(expression: str, path: tuple[str, ...], named: bool) -> None:
    """What was true of a row under one type may not be under a wider one; a part of a name, a function and a text are no columns."""
    assert names_column(expression, path) is named


def test_a_write_does_not_widen_what_a_check_or_a_generated_column_names() -> None:
    fields = (StructField("a", StructType((StructField("x", INT), StructField("y", INT)))), StructField("g", INT, True, {GENERATION_EXPRESSION: "b + 1"}))
    before = StructType((*fields, StructField("b", INT)))
    metadata = Metadata("id", schema_json(before), (), {"delta.constraints.ck": "a.x > 0"})
    wider = StructType((StructField("a", StructType((StructField("x", LONG), StructField("y", LONG)))), *before.fields[1:]))
    assert [(path, new) for path, _, new in type_changes(before, wider)] == [(("a", "x"), LONG), (("a", "y"), LONG)]
    with pytest.raises(StatementRefused, match=r"Column a\.x stays INT, and does not become BIGINT: a CHECK constraint names it") as e:
        check_retyped(metadata, before, wider, "t", altered=False)
    assert e.value.getCondition() == "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"
    assert e.value.getMessageParameters() == {
        "columnName": "a.x", "constraints": "delta.constraints.ck -> a.x > 0", "columnType": "INT", "dataType": "BIGINT"
    }  # fmt: skip
    with pytest.raises(StatementRefused, match="generated column") as e:
        check_retyped(metadata, before, StructType((*fields, StructField("b", LONG))), "t", altered=True)
    assert e.value.getMessageParameters() == {"columnName": "b", "generatedColumns": "g -> b + 1"}
    check_retyped(
        metadata, before, StructType((StructField("a", StructType((StructField("x", INT), StructField("y", LONG)))), *before.fields[1:])), "t", altered=True
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("A",), 1),
        (("s", "x"), 2),
        (("m", "key"), 1),
        (("m", "VALUE", "element"), 1),
        (("l", "element", "x"), 3),
        (("l", "x"), None),
        (("m", "nokey"), None),
        (("a", "x"), None),
    ],
)
def test_the_field_that_holds_a_place(path: tuple[str, ...], expected: int | None) -> None:
    struct = StructType((StructField("x", INT),))
    fields = (StructField("a", INT), StructField("s", struct), StructField("m", MapType(INT, ArrayType(INT))), StructField("l", ArrayType(struct)))
    found = owner(StructType(fields), path)
    assert (found and found[1]) == expected


def test_a_part_of_a_type_is_replaced() -> None:
    assert with_part(MapType(INT, ArrayType(INT)), ("value", "Element"), LONG) == MapType(INT, ArrayType(LONG))


def test_fields_of_rows_by_position_get_the_names_of_those_in_their_places() -> None:
    """Those beyond the table's keep their own, and are added; rows that have the columns' names and types go by name instead."""
    number, wider = PrimitiveType("integer"), PrimitiveType("long")

    def struct(*names: str, type_: PrimitiveType = number) -> StructType:
        return StructType(tuple(StructField(n, type_) for n in names))

    table = StructType((StructField("a", number), StructField("m", MapType(PrimitiveType("string"), struct("x", "y")))))
    held = table.fields[1].type
    assert named_by_place(MapType(PrimitiveType("string"), struct("y", "w", "z")), held) == MapType(PrimitiveType("string"), struct("x", "y", "z"))
    assert named_by_place(number, held) == number
    for names, type_, by_name in ((("y", "x"), number, True), (("y", "x", "z"), number, True), (("y", "z"), number, False), (("y", "x"), wider, False)):
        rows = StructType((StructField("a", number), StructField("m", MapType(PrimitiveType("string"), struct(*names, type_=type_)))))
        assert goes_by_name(rows, ["a", "m"], table, None) is by_name
        assert goes_by_name(rows, ["a", "m"], table, may_become) is ("x" in names)
        assert not goes_by_name(rows, ["m", "a"], table, None)


def test_an_insert_that_lists_its_columns_has_structs_by_position_and_others_by_name() -> None:
    """As with delta-spark; where any value is cast, arrays and maps go by position, too."""

    def struct(*names: str, type_: PrimitiveType = INT) -> StructType:
        return StructType(tuple(StructField(n, type_) for n in names))

    def rows(k: PrimitiveType, s: StructType, held: StructType) -> StructType:
        return StructType((StructField("col1", k), StructField("col2", s), StructField("col3", ArrayType(held))))

    table, moved = StructType((StructField("k", INT), StructField("s", struct("x", "y")), StructField("l", ArrayType(struct("x", "y"))))), struct("y", "x")
    for s in (moved, struct("p", "q"), struct("x", "y")):
        found = listed_by_name(rows(INT, s, moved), ["k", "s", "l"], table, None)
        assert found is not None
        assert listed_by_name(rows(INT, s, moved), ["K", "s", "l"], table, None) is None
        assert [(f.name, f.type) for f in found.fields] == [("k", INT), ("s", struct("x", "y")), ("l", ArrayType(moved))]
    for k, s, held in ((LONG, moved, moved), (INT, struct("y", "x", type_=LONG), moved), (INT, moved, struct("y", "z")), (INT, moved, struct("x", "y"))):
        assert listed_by_name(rows(k, s, held), ["k", "s", "l"], table, None) is None
    inner = StructType((StructField("s", StructType((StructField("l", ArrayType(struct("x", "y"))),))),))
    within = StructType((StructField("s", StructType((StructField("l", ArrayType(moved)),))),))
    assert listed_by_name(within, ["s"], inner, None) == within
