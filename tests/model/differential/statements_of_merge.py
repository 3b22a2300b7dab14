"""MERGE in all its forms, as SQL and as the builder of DeltaTable."""

from __future__ import annotations

from model.differential.draw import Draw
from model.differential.expressions import condition, quoted
from model.differential.tables import Column, Table
from model.differential.values import value


def merge(draw: Draw, table: Table) -> str:
    """MERGE INTO t AS t USING a query, as SQL or by the builder."""
    source = _columns(draw, table)
    query = _source(draw, table, source)
    keys = [c for c in source if c.name in table.by_name and c.kind not in ("MAP<STRING, INT>",)] or source[:1]
    key = keys[0] if draw.maybe("by id", 0.6) else draw.pick("key", keys)
    on = f"t.{quoted(key)} = s.{quoted(key)}"
    on = draw.pick(
        "on",
        (
            on,
            f"s.{quoted(key)} = t.{quoted(key)}",
            f"t.{quoted(key)} <=> s.{quoted(key)}",
            f"t.{quoted(key)} > s.{quoted(key)}",
            "false",
            "true",
            f"upper(t.{quoted(key)}) = upper(s.{quoted(key)})",
            f"t.id + 1 = s.{quoted(source[0])}",
            f"t.{quoted(key)} = s.{quoted(key)} OR t.id = s.{quoted(source[0])}",
            f"CAST(t.{quoted(key)} AS STRING) = s.{quoted(key)}",
            f"t.{quoted(key)} IN (s.{quoted(key)}, s.{quoted(source[0])})",
        ),
        (14, 2, 2, 0.5, 0.4, 0.4, 0.5, 0.5, 0.5, 0.5, 0.5),
    )
    if draw.maybe("more", 0.2):
        on += f" AND {condition(draw.within('on'), table.columns, before='t.')}"
    clauses = []
    for kind, name, one, weights in (
        ("matched", "matched", _matched, (1, 5, 2, 1, 0.5)), ("not matched", "new", _not_matched, (2, 5, 1, 0.5)), ("by source", "old", _by_source, (4, 1, 0.4)),
    ):  # fmt: skip
        count = draw.pick(kind, range(len(weights)), weights)
        clauses += [one(draw.within(f"{name}{n}"), table, source, 0.35 if n + 1 == count else 0.95) for n in range(count)]
    clauses = clauses or [("matched", "", "DELETE")]
    evolving = draw.maybe("evolution", 0.2)
    if draw.maybe("builder", 0.2):
        return _built(query, on, clauses, evolving=evolving)
    words = {"matched": "MATCHED", "new": "NOT MATCHED", "old": "NOT MATCHED BY SOURCE"}
    text = " ".join(f"WHEN {words[kind]}{f' AND {where}' if where else ''} THEN {what}" for kind, where, what in clauses)
    return f"MERGE {'WITH SCHEMA EVOLUTION ' if evolving else ''}INTO t USING ({query}) s ON {on} {text}"


def _columns(draw: Draw, table: Table) -> list[Column]:
    """The source's columns: the table's, at times fewer, more, or of another type."""
    out = [Column(c.name, c.kind) for c in table.columns if (c.given or draw.maybe(f"computed {c.name}", 0.2)) and not draw.maybe(f"lacks {c.name}", 0.1)]
    for c in out:
        if c.kind in ("INT", "STRING", "DATE") and draw.maybe(f"other type {c.name}", 0.06):
            c.kind = draw.pick(f"type of {c.name}", ("BIGINT", "STRING", "DOUBLE"))
    if draw.maybe("wider", 0.15):
        out.append(Column("extra", "INT"))
    return out or [Column("id", "INT")]


def _source(draw: Draw, table: Table, columns: list[Column]) -> str:
    if draw.maybe("itself", 0.08):
        return f"SELECT {', '.join(quoted(c) for c in columns if c.name in table.by_name) or 'id'} FROM t WHERE id > 1"
    rows = []
    for n in range(draw.pick("rows", (1, 2, 3))):
        at = draw.within(f"row{n}")
        values = [str(n + 1) if c.name == "id" and not at.maybe("odd id", 0.2) else value(at.within(c.name), c.kind) for c in columns]
        rows.append("SELECT " + ", ".join(f"CAST({v} AS {c.kind}) AS {quoted(c)}" for v, c in zip(values, columns, strict=True)))
    return " UNION ALL ".join(rows)


def _assignments(draw: Draw, table: Table, source: list[Column]) -> list[tuple[str, str]]:
    """Columns with their values, of UPDATE SET and of INSERT."""
    given = {c.name for c in source}
    out = []
    for c in table.columns:
        at = draw.within(c.name)
        if at.maybe("left out", 0.4):
            continue
        if c.name in given and not at.maybe("other", 0.3):
            out.append((quoted(c), f"s.{quoted(c)}"))
        else:
            out.append((quoted(c), value(at, c.kind, stray=0.1)))
            if source and at.maybe("mixed", 0.3):
                other = quoted(at.pick("of", source))
                out[-1] = (
                    quoted(c),
                    at.pick(
                        "form",
                        (
                            f"coalesce(s.{other}, {out[-1][1]})",
                            f"CASE WHEN s.{other} IS NULL THEN {out[-1][1]} END",
                            f"s.{other}",
                            f"CAST(s.{other} AS {c.kind})",
                        ),
                    ),
                )
    return out or [("id", "s.id" if "id" in given else "1")]


def _where(draw: Draw, columns: list[Column], before: str, probability: float) -> str:
    return condition(draw.within("where"), columns, before=before) if draw.maybe("conditional", probability) else ""


def _matched(draw: Draw, table: Table, source: list[Column], conditional: float) -> tuple[str, str, str]:
    where = _where(draw, table.columns, "t.", conditional) if draw.maybe("of the table", 0.6) else _where(draw, source, "s.", conditional)
    what = draw.pick("what", ("DELETE", "UPDATE SET *", "UPDATE SET"), (2, 4, 4))
    if what == "UPDATE SET":
        struct = [c for c in table.columns if c.kind.startswith("STRUCT")]
        sets = [f"{name} = {v}" for name, v in _assignments(draw, table, source) if name != "id"] or ["id = t.id"]
        if struct and draw.maybe("field", 0.3):
            sets = [f"{quoted(struct[0])}.{'`a.b`' if '`a.b`' in struct[0].kind else 'a'} = {draw.pick('to', ('5', 's.id', 'NULL', 't.id'))}"]
        what += " " + ", ".join(sets)
    return "matched", where, what


def _not_matched(draw: Draw, table: Table, source: list[Column], conditional: float) -> tuple[str, str, str]:
    if draw.maybe("listed", 0.5):
        pairs = _assignments(draw, table, source)
        return "new", _where(draw, source, "s.", conditional), f"INSERT ({', '.join(n for n, _ in pairs)}) VALUES ({', '.join(v for _, v in pairs)})"
    return "new", _where(draw, source, "s.", conditional), "INSERT *"


def _by_source(draw: Draw, table: Table, source: list[Column], conditional: float) -> tuple[str, str, str]:
    what = "DELETE" if draw.maybe("delete", 0.5) else "UPDATE SET " + ", ".join(f"{n} = {v}" for n, v in _assignments(draw, table, []))
    return "old", _where(draw, table.columns, "t.", max(conditional, 0.6)), what


def _built(query: str, on: str, clauses: list[tuple[str, str, str]], *, evolving: bool) -> str:
    """The same MERGE by DeltaTable's builder."""
    out = f'py:DeltaTable.forName(spark, "t").alias("t").merge(spark.sql({query!r}).alias("s"), {on!r})' + (".withSchemaEvolution()" if evolving else "")
    names = {"matched": "whenMatched", "new": "whenNotMatched", "old": "whenNotMatchedBySource"}
    for kind, where, what in clauses:
        condition_text = repr(where) if where else "None"
        if what == "DELETE":
            out += f".{names[kind]}Delete({condition_text})"
        elif what in ("UPDATE SET *", "INSERT *"):
            out += f".{names[kind]}{'UpdateAll' if what.startswith('U') else 'InsertAll'}({condition_text})"
        else:
            out += f".{names[kind]}{'Update' if what.startswith('U') else 'Insert'}({condition_text}, {_pairs(what)!r})"
    return out + ".execute()"


def _pairs(what: str) -> dict[str, str]:
    """The names and values of a clause: as the builder takes them."""
    if what.startswith("INSERT"):
        names, _, values = what[len("INSERT (") : -1].partition(") VALUES (")
        return dict(zip(_split(names), _split(values), strict=True))
    return {name.strip(): v.strip() for name, _, v in (part.partition(" = ") for part in _split(what[len("UPDATE SET ") :]))}


def _split(text: str) -> list[str]:
    """Parts between commas that stand in no brackets and no quotes."""
    parts, depth, quote, at = [""], 0, "", 0
    while at < len(text):
        c = text[at]
        if quote:
            if c == "\\":
                parts[-1] += c
                at += 1
                c = text[at]
            elif c == quote:
                quote = ""
        elif c in "'`":
            quote = c
        elif c in "()":
            depth += 1 if c == "(" else -1
        if c == "," and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += c
        at += 1
    return [p.strip() for p in parts]
