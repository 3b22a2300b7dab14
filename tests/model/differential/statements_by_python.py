"""Writes by DataFrameWriter, by `writeTo`, by DeltaTable, and by streams."""

from __future__ import annotations

from model.differential.draw import Draw
from model.differential.expressions import condition, expression, quoted
from model.differential.tables import Column, Table
from model.differential.values import value


def _frame(draw: Draw, table: Table) -> str:
    """A DataFrame of the table's columns, at times fewer, more, or in another order."""
    columns = [c for c in table.columns if (c.given or draw.maybe(f"computed {c.name}", 0.1)) and not draw.maybe(f"lacks {c.name}", 0.08)] or table.columns[:1]
    if draw.maybe("reversed", 0.2):
        columns = columns[::-1]
    if draw.maybe("wider", 0.15):
        columns = [*columns, Column("extra", "INT")]
    rows = []
    for n in range(draw.pick("rows", (1, 2, 0))):
        at = draw.within(f"row{n}")
        rows.append(
            "SELECT "
            + ", ".join(f"{v if (v := value(at.within(c.name), c.kind, stray=0.04)) != 'NULL' else f'CAST(NULL AS {c.kind})'} AS {quoted(c)}" for c in columns)
        )
    return f"spark.sql({' UNION ALL '.join(rows) or 'SELECT * FROM t WHERE false'!r})"


def writer(draw: Draw, table: Table) -> str:
    """df.write and df.writeTo with their options."""
    frame = _frame(draw.within("frame"), table)
    if draw.maybe("to", 0.2):
        verb = draw.pick(
            "verb",
            ("append()", "overwritePartitions()", f"overwrite(F.expr({condition(draw.within('where'), table.columns)!r}))", "createOrReplace()", "create()"),
            (3, 2, 2, 1, 0.5),
        )
        using = ".using('delta')" if "create" in verb.lower() else ""
        return f'py:{frame}.writeTo("t"){using}.{verb}'
    mode = draw.pick("mode", ("append", "overwrite", "error", "ignore"), (4, 4, 0.5, 0.5))
    options = ""
    for name, chance, given in (
        ("mergeSchema", 0.2, ("true", "false")),
        ("overwriteSchema", 0.1, ("true",)),
        ("replaceWhere", 0.15 if mode == "overwrite" else 0.02, ()),
        ("partitionOverwriteMode", 0.15, ("dynamic", "static")),
        ("userMetadata", 0.05, ("said",)),
        ("maxRecordsPerFile", 0.05, ("1",)),
        ("dataChange", 0.04, ("false",)),
        ("compression", 0.03, ("zstd",)),
        ("txnVersion", 0.03, ("1",)),
    ):
        at = draw.within(name)
        if at.maybe("set", chance):
            to = condition(at, table.columns) if name == "replaceWhere" else at.pick("to", given)
            options += f".option({name!r}, {to!r})" + (".option('txnAppId', 'app')" if name == "txnVersion" else "")
    by = draw.pick("by", ("", f".partitionBy({', '.join(map(repr, table.partitions)) or repr('id')})"), (5, 1))
    end = draw.pick("end", ('saveAsTable("t")', 'insertInto("t")', 'save("{root}/written")', 'saveAsTable("made")'), (5, 2, 1, 1))
    form = "" if end.startswith("insertInto") else '.format("delta")'
    return f"py:{frame}.write{form}.mode({mode!r}){options}{by}.{end}"


def builder(draw: Draw, table: Table) -> str:
    """DeltaTable: update, delete, optimize, restore, detail; MERGE is drawn with the SQL ones."""
    column = draw.pick("column", table.columns)
    where = condition(draw.within("where"), table.columns)
    what = draw.pick(
        "what",
        (f"update({where!r}, {{{quoted(column)!r}: {expression(draw, column, table.columns)!r}}})", f"delete({where!r})", "delete()", "optimize().executeCompaction()", "restoreToVersion(0)",
         "toDF()", "history().select('operation')", "addFeatureSupport('deletionVectors')", "upgradeTableProtocol(1, 2)"),
        (4, 3, 0.5, 1, 1, 1, 0, 0.5, 0.5),
    )  # fmt: skip
    return f'py:DeltaTable.forName(spark, "t").{what}'


def stream(draw: Draw, table: Table) -> str:
    """A stream that reads the table, and one that writes into a table."""
    at = draw.pick("checkpoint", ("1", "2"))
    end = f'.trigger(availableNow=True).option("checkpointLocation", "{{root}}/checkpoint{at}")'
    option = draw.pick("option", ("", ".option('ignoreDeletes', 'true')", ".option('skipChangeCommits', 'true')", ".option('ignoreChanges', 'true')", ".option('startingVersion', '0')",
                                  ".option('maxFilesPerTrigger', '1')", ".option('readChangeFeed', 'true')"))  # fmt: skip
    merge = ".option('mergeSchema', 'true')" if draw.maybe("merge", 0.2) else ""
    mode = draw.pick("mode", ("append", "complete"), (8, 1))
    source = f'spark.readStream.format("delta"){option}.table("t")'
    if mode == "complete":
        source += '.groupBy("id").count()'
    return f'py:{source}.writeStream.format("delta").outputMode("{mode}"){merge}{end}.start("{{root}}/streamed").awaitTermination()'
