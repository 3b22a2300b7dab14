"""INSERT, UPDATE and DELETE in all their forms."""

from __future__ import annotations

from model.differential.draw import Draw
from model.differential.expressions import assignment, condition
from model.differential.tables import Column, Table, rows
from model.differential.values import value


def insert(draw: Draw, table: Table) -> str:
    """INSERT INTO or OVERWRITE: by position, by a list, BY NAME, into partitions, REPLACE WHERE."""
    overwrite = draw.maybe("overwrite", 0.3)
    verb = "INSERT OVERWRITE" if overwrite else "INSERT INTO"
    form = draw.pick("form", ("position", "list", "by name", "partition", "replace where"), (4, 2, 2, 3 if table.partitions else 0, 1))
    evolving = "WITH SCHEMA EVOLUTION " if draw.maybe("evolution", 0.08) else ""
    columns = [c for c in table.columns if c.given or draw.maybe(f"computed.{c.name}", 0.05)]
    if form == "replace where":
        where = condition(draw.within("where"), table.columns)
        return f"INSERT INTO t{' BY NAME' if draw.maybe('name', 0.3) else ''} REPLACE WHERE {where} {_query(draw, table.columns, named=True)}"
    if form == "position":
        return f"{_with(verb, evolving)} t {_rows(draw, table.columns if draw.maybe('all', 0.3) else columns)}"
    if form == "list":
        kept = [c for c in columns if not draw.maybe(f"left out {c.name}", 0.25)] or columns[:1]
        if draw.maybe("reversed", 0.3):
            kept.reverse()
        return f"{_with(verb, evolving)} t ({', '.join(_name(draw, c) for c in kept)}) {_rows(draw, kept)}"
    if form == "by name":
        kept = [c for c in columns if not draw.maybe(f"left out {c.name}", 0.15)] or columns[:1]
        if draw.maybe("reversed", 0.3):
            kept.reverse()
        if draw.maybe("unknown", 0.1):
            kept = [*kept, Column("another", "INT")]
        return f"{_with(verb, evolving)} t BY NAME {_query(draw, kept, named=True)}"
    return _into_partitions(draw, table, _with(verb, evolving), columns)


def _with(verb: str, evolving: str) -> str:
    return verb.replace("INSERT ", f"INSERT {evolving}")


def _into_partitions(draw: Draw, table: Table, verb: str, columns: list[Column]) -> str:
    static, spec = [], []
    for name in table.partitions:
        column = table.by_name[name]
        at = draw.within(f"partition.{name}")
        if at.maybe("static", 0.7):
            static.append(name)
            spec.append(f"{_name(at, column)} = {value(at, column.kind, stray=0.2)}")
        elif not at.maybe("left out", 0.2):
            spec.append(_name(at, column))
    rest = [c for c in columns if c.name not in static]
    rest.sort(key=lambda c: c.name in table.partitions)
    spec_text = f" PARTITION ({', '.join(spec)})" if spec else ""
    if draw.maybe("named", 0.2):
        return f"{verb} t{spec_text} BY NAME {_query(draw, rest, named=True)}"
    if draw.maybe("listed", 0.3):
        rest = [c for c in rest if not draw.maybe(f"left out {c.name}", 0.2)] or rest[:1]
        return f"{verb} t{spec_text} ({', '.join(_name(draw, c) for c in rest)}) {_rows(draw, rest)}"
    return f"{verb} t{spec_text} {_rows(draw, rest)}"


def _name(draw: Draw, column: Column) -> str:
    """A column's name, at times in another case."""
    if draw.maybe(f"case.{column.name}", 0.06):
        return f"`{column.name.swapcase()}`"
    return column.sql


def _rows(draw: Draw, columns: list[Column]) -> str:
    if draw.maybe("query", 0.35):
        return _query(draw, columns, named=False)
    given = rows(draw, columns, stray=0.06)
    if draw.maybe("default", 0.05):
        return "VALUES (" + ", ".join(["DEFAULT"] * len(columns)) + ")"
    return f"VALUES {given}"


def _query(draw: Draw, columns: list[Column], *, named: bool) -> str:
    if draw.maybe("of the table", 0.15):
        return f"SELECT {', '.join(_name(draw, c) for c in columns)} FROM t"
    out = []
    for c in columns:
        found = value(draw.within(f"query.{c.name}"), c.kind, stray=0.06)
        out.append(f"{found} AS {_name(draw, c)}" if named or draw.maybe(f"named.{c.name}", 0.3) else found)
    more = ""
    if draw.maybe("none", 0.05):
        more = " WHERE false"
    return f"SELECT {', '.join(out)}{more}"


def update(draw: Draw, table: Table) -> str:
    """UPDATE of one to three columns."""
    alias = draw.pick("alias", ("", " AS x", " y"), (6, 1, 1))
    count = draw.pick("columns", (1, 2, 3), (6, 2, 1))
    chosen = list(dict.fromkeys(draw.pick(f"column{n}", range(len(table.columns))) for n in range(count)))
    sets = ", ".join(assignment(draw.within(f"set{n}"), table.columns[n], table.columns) for n in chosen)
    where = f" WHERE {condition(draw.within('where'), table.columns)}" if draw.maybe("where", 0.85) else ""
    return f"UPDATE t{alias} SET {sets}{where}"


def delete(draw: Draw, table: Table) -> str:
    """DELETE with or without a condition."""
    where = f" WHERE {condition(draw.within('where'), table.columns)}" if draw.maybe("where", 0.95) else ""
    return f"DELETE FROM t{where}"
