"""Conditions and values of statements."""

from __future__ import annotations

from model.differential.draw import Draw
from model.differential.tables import Column
from model.differential.values import NESTED, value


def quoted(column: Column) -> str:
    """The name in backticks where it needs them."""
    return column.sql


def condition(draw: Draw, columns: list[Column], *, before: str = "", depth: int = 0) -> str:
    """A condition over the columns; `before` stands before each name."""
    if depth < 2 and draw.maybe("joined", 0.25):
        word = draw.pick("word", ("AND", "OR", "AND NOT"))
        return f"({condition(draw.within('l'), columns, before=before, depth=depth + 1)} {word} {condition(draw.within('r'), columns, before=before, depth=depth + 1)})"
    scalars = [c for c in columns if c.kind not in NESTED] or columns
    column = draw.pick("column", scalars)
    name = before + quoted(column)
    one, two = (value(draw.within(w), column.kind, stray=0.08) for w in ("one", "two"))
    form = draw.pick(
        "form",
        ("=", ">", "<=", "<>", "<=>", "IS NULL", "IS NOT NULL", "IN", "BETWEEN", "LIKE", "modulo", "nested", "function"),
        (6, 2, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1),
    )
    if form in ("=", ">", "<=", "<>", "<=>"):
        return f"{name} {form} {one}"
    if form in ("IS NULL", "IS NOT NULL"):
        return f"{name} {form}"
    if form == "IN":
        return f"{name} {'NOT ' if draw.maybe('not', 0.2) else ''}IN ({one}, {two})"
    if form == "BETWEEN":
        return f"{name} BETWEEN {one} AND {two}"
    if form == "LIKE":
        pattern = draw.pick("pattern", ("'a%'", "'%'", "'_'", "'1%'", "''"))
        return f"{name} LIKE {pattern}"
    if form == "modulo":
        return f"{before}id % 2 = {draw.pick('rest', (0, 1))}"
    nested = [c for c in columns if c.kind in NESTED]
    if form == "nested" and nested:
        found = draw.pick("which", nested)
        path = {
            "STRUCT": ".a = 1",
            "ARRAY<I": "[0] = 1",
            "MAP<STR": "['k'] = 1",
            "ARRAY<S": "[0].a = 1",
            "STRUCT<`": ".s.x = 2",
            "MAP<STRING, STRUCT": "['k'].a = 1",
            "VARIANT": ":a = 1",
        }
        start = max((k for k in path if found.kind.startswith(k)), key=len)
        return before + quoted(found) + path[start]
    return draw.pick(
        "call",
        (
            f"coalesce({name}, {one}) = {one}",
            f"upper({name}) = 'A'",
            f"length({name}) > 0",
            f"CAST({name} AS STRING) <> ''",
            f"isnan({name})",
            "true",
            "1 = 0",
            f"year({name}) = 2024",
            f"CAST({name} AS DATE) = DATE'2024-01-01'",
            f"date_trunc('DAY', {name}) <= {one}",
            f"{name} = {one} IS TRUE",
            f"NOT ({name} = {one})",
            f"({name}, {before}id) IN (({one}, 1), ({two}, 2))",
            f"{name} || '' = {one}",
            f"{name} + 1 > {one}",
            f"{name} IN (NULL, {one})",
            f"nullif({name}, {one}) IS NULL",
            f"{one} = {name}",
            f"try_cast({name} AS INT) = 1",
            f"if({name} = {one}, true, NULL)",
            f"CASE WHEN {name} > {one} THEN true WHEN {name} IS NULL THEN NULL ELSE false END",
            f"{name} LIKE ANY ('a%', '1%')",
            f"CAST({name} AS TIMESTAMP) >= TIMESTAMP'2018-11-04 00:00:00'",
            f"-{name} < 0",
            f"{name} = {one} AND {name} = {two}",
            f"abs({name}) % 3 = 1",
            f"hash({name}) % 2 = 0",
            f"substring({name}, 1, 1) = 'a'",
            f"{name} BETWEEN {two} AND {one}",
            f"{name} = current_date()",
            f"equal_null({name}, {one})",
            f"trim({name}) = 'a'",
            f"contains({name}, 'a')",
            f"startswith({name}, 'a')",
            f"greatest({name}, {one}) = {one}",
            f"{name} IS NOT DISTINCT FROM {one}",
            f"{name} RLIKE '^a'",
            f"lower({name}) IN ('a', 'b')",
            f"{name} IN (SELECT {name.rpartition('.')[2] if before else name} FROM t)",
            f"(SELECT max(id) FROM t) = {before}id",
            f"concat_ws(',', {name}, {before}id) = '1,1'",
            f"to_date({name}) = DATE'2018-11-04'",
            f"months_between({name}, {one}) > 0",
            f"{name} <=> NULL",
            f"{name}::string = '1'",
            f"round({name}) = 2",
            f"unix_timestamp({name}) > 0",
        ),
    )


def assignment(draw: Draw, column: Column, columns: list[Column], *, before: str = "") -> str:
    """`name = value` of UPDATE, of the column or of a field in it."""
    name = before + quoted(column)
    if column.kind.startswith("STRUCT") and draw.maybe("field", 0.6):
        field = draw.pick(
            "which",
            ("`a.b` = 7", "s.x = id", "s = NULL", "s.y = array('q', NULL)")
            if "`a.b`" in column.kind
            else ("a = 7", "t = TIMESTAMP'2018-11-04 00:00:00'", "d = t.t", "d = '2018-11-04'")
            if "DATE" in column.kind
            else ("a = 7", "b = NULL", "a = id", "b = 'neu'"),
        )
        return f"{name}.{field}"
    return f"{name} = {expression(draw, column, columns)}"


def expression(draw: Draw, column: Column, columns: list[Column]) -> str:
    """A value for a column, of literals and of other columns."""
    plain = value(draw, column.kind, stray=0.12)
    other = quoted(draw.pick("other column", columns))
    same = [c for c in columns if c.kind == column.kind and c is not column]
    alike = quoted(draw.pick("alike", same)) if same else plain
    return draw.pick(
        "expression",
        (plain, alike, f"coalesce({quoted(column)}, {plain})", f"{quoted(column)} + 1", f"CASE WHEN id > 1 THEN {plain} ELSE {quoted(column)} END", other, "DEFAULT",
         f"CAST({other} AS {column.kind})", f"if({quoted(column)} IS NULL, {plain}, {alike})", "(SELECT max(id) FROM t)", f"try_cast({other} AS {column.kind})", f"{quoted(column)} - {alike}",
         f"{quoted(column)} || 'x'", f"nullif({quoted(column)}, {plain})", f"upper({quoted(column)})", f"date_add({quoted(column)}, 1)", f"{quoted(column)} + INTERVAL 1 HOUR"),
        (8, 3, 2, 2, 2, 1, 1, 0.7, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.7),
    )  # fmt: skip
