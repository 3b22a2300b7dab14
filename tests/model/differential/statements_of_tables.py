"""Statements about tables: ALTER, CREATE, OPTIMIZE, RESTORE, CLONE, VACUUM, DESCRIBE, and queries."""

from __future__ import annotations

from model.differential.draw import Draw
from model.differential.expressions import condition, quoted
from model.differential.tables import PROPERTIES, Column, Table
from model.differential.values import NESTED, SCALARS, value


def alter(draw: Draw, table: Table) -> str:
    """One change of the definition; the columns are kept up to date as if it succeeded."""
    form = draw.pick("form", tuple(_ALTER), [weight for _, weight in _ALTER.values()])
    return f"ALTER TABLE t {_ALTER[form][0](draw.within(form), table)}"


def _add(draw: Draw, table: Table) -> str:
    column = Column(f"d{len(table.columns)}", draw.pick("type", SCALARS + NESTED))
    table.columns.append(column)
    struct = [c for c in table.columns if c.kind.startswith("STRUCT")]
    if struct and draw.maybe("field", 0.3):
        table.columns.remove(column)
        return f"ADD COLUMNS ({quoted(struct[0])}.z {draw.pick('of', ('INT', 'STRUCT<q: INT>', 'TIMESTAMP_NTZ', 'INT AFTER a', 'INT FIRST'))})"
    more = draw.pick("more", ("", " FIRST", " AFTER id", " COMMENT 'new'", " NOT NULL", " DEFAULT 1"), (8, 1, 1, 1, 0.5, 0.5))
    return f"ADD COLUMNS ({column.name} {column.kind}{more})"


def _any(draw: Draw, table: Table) -> Column:
    return draw.pick("column", table.columns)


def _drop(draw: Draw, table: Table) -> str:
    return f"DROP COLUMN {quoted(_any(draw, table))}{_field(draw)}"


def _field(draw: Draw) -> str:
    """At times a field of the column, which it may not have."""
    return draw.pick("field", (".a", ".b", ".`a.b`", ".s.x", ".element.a", ".value.a", ".key", ".z", ".t")) if draw.maybe("of a field", 0.2) else ""


def _rename(draw: Draw, table: Table) -> str:
    return f"RENAME COLUMN {quoted(_any(draw, table))}{_field(draw)} TO {draw.pick('to', ('r1', 'id', '`r 2`', 'ID'), (4, 1, 1, 1))}"


def _type(draw: Draw, table: Table) -> str:
    return f"ALTER COLUMN {quoted(_any(draw, table))}{_field(draw)} TYPE {draw.pick('type', ('BIGINT', 'INT', 'DOUBLE', 'STRING', 'DECIMAL(20,2)', 'TIMESTAMP_NTZ'))}"


def _column(draw: Draw, table: Table) -> str:
    what = draw.pick(
        "what", ("COMMENT 'said'", "SET NOT NULL", "DROP NOT NULL", "FIRST", "AFTER id", "SET DEFAULT 1", "DROP DEFAULT", "SET DEFAULT current_date()")
    )
    return f"ALTER COLUMN {quoted(_any(draw, table))}{_field(draw)} {what}"


def _set(draw: Draw, table: Table) -> str:
    name, options, _ = draw.pick(
        "property", (*PROPERTIES, ("own.name", ("1",), 0), ("delta.noSuch", ("1",), 0), ("delta.logRetentionDuration", ("interval 3 days", "abc"), 0))
    )
    return f"SET TBLPROPERTIES ('{name}' = '{draw.pick('to', (*options, 'false'))}')"


def _unset(draw: Draw, table: Table) -> str:
    name, _, _ = draw.pick("property", (*PROPERTIES, ("own.name", (), 0)))
    return f"UNSET TBLPROPERTIES {'IF EXISTS ' if draw.maybe('if exists', 0.5) else ''}('{name}')"


def _constraint(draw: Draw, table: Table) -> str:
    if draw.maybe("drop", 0.3):
        return f"DROP CONSTRAINT {'IF EXISTS ' if draw.maybe('if exists', 0.5) else ''}{draw.pick('name', ('positive', 'k1'))}"
    return f"ADD CONSTRAINT k1 CHECK ({condition(draw.within('check'), table.columns)})"


def _replace(draw: Draw, table: Table) -> str:
    columns = [*table.columns[::-1], Column("late", "INT")] if draw.maybe("reversed", 0.5) else table.columns
    return f"REPLACE COLUMNS ({', '.join(f'{quoted(c)} {c.kind}' for c in columns)})"


def _cluster(draw: Draw, table: Table) -> str:
    return f"CLUSTER BY {draw.pick('by', ('NONE', '(id)', f'({quoted(_any(draw, table))})'))}"


def _feature(draw: Draw, table: Table) -> str:
    return f"DROP FEATURE {draw.pick('feature', ('deletionVectors', 'columnMapping', 'noSuch', 'domainMetadata', 'typeWidening', 'timestampNtz', 'v2Checkpoint', 'inCommitTimestamp', 'rowTracking', 'checkConstraints', 'generatedColumns', 'invariants', 'changeDataFeed', 'appendOnly', 'allowColumnDefaults', 'vacuumProtocolCheck', 'variantType', 'identityColumns'))}"


_ALTER = {
    "add": (_add, 4), "set": (_set, 4), "column": (_column, 3), "rename": (_rename, 2), "drop": (_drop, 2), "type": (_type, 2), "unset": (_unset, 1),
    "constraint": (_constraint, 2), "replace": (_replace, 1), "cluster": (_cluster, 1), "feature": (_feature, 0.8),
}  # fmt: skip


def create(draw: Draw, table: Table) -> str:
    """CREATE and REPLACE of another table, or of the table itself."""
    name, place = draw.pick("name", (("made", ""), ("made", " LOCATION '{root}/made'"), ("t", "")), (3, 2, 1))
    verb = draw.pick("verb", ("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE", "REPLACE TABLE"), (3, 1, 3, 1))
    by = draw.pick(
        "by", ("", " PARTITIONED BY (id)", " CLUSTER BY (id)", " PARTITIONED BY (ID)", f" PARTITIONED BY ({quoted(_any(draw, table))})"), (6, 2, 1, 0.5, 1)
    )
    comment = " COMMENT 'said'" if draw.maybe("comment", 0.2) else ""
    name_of, options, _ = draw.pick("property", PROPERTIES)
    properties = f" TBLPROPERTIES ('{name_of}' = '{draw.pick('to', options)}')" if draw.maybe("properties", 0.4) else ""
    form = draw.pick("form", ("select", "columns", "like", "clone"), (4, 3, 1, 1))
    if form == "like":
        return f"CREATE TABLE {'IF NOT EXISTS ' if draw.maybe('if', 0.3) else ''}{name} LIKE t{place}{properties}"
    if form == "clone":
        of = draw.pick("of", ("", " VERSION AS OF 0", " VERSION AS OF 99"), (4, 1, 0.5))
        return f"{verb} {name} SHALLOW CLONE t{of}{properties}{place}"
    if form == "select":
        more = draw.pick("where", ("", " WHERE id > 1", " WHERE false"), (4, 2, 1))
        listed = draw.pick("list", ("*", "id, id + 1 AS n", "id, 'x' AS `a b`", "id, NULL AS v"), (5, 2, 0.5, 0.5))
        return f"{verb} {name} USING delta{by}{comment}{place}{properties} AS SELECT {listed} FROM t{more}"
    columns = []
    for c in table.columns:
        more = draw.pick(f"more {c.name}", ("", " NOT NULL", " COMMENT 'x'", f" DEFAULT {value(draw, c.kind)}"), (6, 1, 1, 0.5))
        columns.append(f"{quoted(c)} {c.kind}{more}")
    return f"{verb} {name} ({', '.join(columns)}) USING delta{by}{comment}{place}{properties}"


def upkeep(draw: Draw, table: Table) -> str:
    """OPTIMIZE, RESTORE, REORG, VACUUM, TRUNCATE and what describes a table."""
    keys = [c for c in table.columns if c.name not in table.partitions]
    key = quoted(draw.pick("key", keys or table.columns))
    where = condition(draw.within("where"), [table.by_name[p] for p in table.partitions if p in table.by_name] or table.columns)
    return draw.pick(
        "form",
        ("OPTIMIZE t", f"OPTIMIZE t ZORDER BY ({key})", f"OPTIMIZE t WHERE {where}", "OPTIMIZE t FULL", "RESTORE TABLE t TO VERSION AS OF 0", "RESTORE TABLE t TO VERSION AS OF 1",
         "RESTORE TABLE t TO VERSION AS OF 99", "REORG TABLE t APPLY (PURGE)", "TRUNCATE TABLE t", "COMMENT ON TABLE t IS 'said'", "SELECT version, operation FROM (DESCRIBE HISTORY t)",
         "py:spark.sql('DESCRIBE HISTORY t').select('operation', 'operationMetrics.numOutputRows').limit(1)", "py:spark.sql('DESCRIBE DETAIL t').select('format', 'partitionColumns', 'numFiles')",
         "DESCRIBE TABLE t", "SHOW COLUMNS IN t", "SHOW PARTITIONS t"),
        (3, 2, 2, 0.5, 3, 2, 1, 1, 1, 0.5, 0, 1, 1, 1, 0.5, 1),
    )  # fmt: skip


def query(draw: Draw, table: Table) -> str:
    """SELECT of the table, in the session of the case."""
    form = draw.pick("form", ("where", "all", "order", "count", "group", "version"), (5, 1, 2, 1, 1, 1))
    column = quoted(_any(draw, table))
    if form == "where":
        return f"SELECT * FROM t WHERE {condition(draw.within('where'), table.columns)}"
    if form == "order":
        return f"SELECT collect_list(CAST(k AS STRING)) FROM (SELECT {column} AS k FROM t ORDER BY {column} {draw.pick('way', ('', 'DESC', 'NULLS LAST'))})"
    if form == "count":
        return f"SELECT count(*), count({column}) FROM t"
    if form == "group":
        return f"SELECT max(id), count(*) FROM t GROUP BY {quoted(draw.pick('by', table.scalars()))}"
    return "SELECT * FROM t VERSION AS OF 0" if form == "version" else "SELECT * FROM t"
