"""Gives new rows their numbers in identity columns: the rows of an append, and those that a MERGE inserts (I3, I5).

The rows are pinned and counted first, so that as many numbers are reserved as there are rows, and a row keeps its number in every
rebase: it follows from the row's place among the pinned ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from rowlock.engines.spark.catalyst.analysis import Resolved, Target, analyzed
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.reading import read_frame
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements.merge_source import Source, pin
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.identity import Identity, identity_columns, refuse_explicit, refuse_update
from rowlock.protocol.schema import quote


class Inserting(Protocol):
    """A WHEN clause, once it is known which columns it sets."""

    @property
    def sets(self) -> tuple[str, ...]: ...


@contextmanager
def numbered_rows(evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame) -> Iterator[DataFrame]:
    """The rows of an append with the identity columns that they lack; what was pinned for them is released at the end of the block.

    Raises StatementRefused for rows that give a column which is generated always.
    """
    given = {name.lower() for name in frame.columns}
    refuse_explicit(snapshot.schema, given, snapshot.table)
    absent = [i for i in identity_columns(snapshot.schema) if i.name.lower() not in given]
    if not absent:
        yield frame
        return
    source = pin(evaluator, frame, evaluator.bridge)
    try:
        firsts = evaluator.numbers(absent).take(source.num_rows)
        rows = source.numbered_frame(evaluator)
        yield rows.select(*(F.col(quote(n)) for n in frame.columns), *(_number(i, firsts, F.col(SOURCE_ROW)) for i in absent))
    finally:
        source.release(evaluator)


def furthest_number(evaluator: Evaluator, snapshot: Snapshot, column: Identity) -> int | None:
    """The number in the rows of a snapshot that lies furthest in the direction of the column's step; None where all are null.  One Spark job."""
    value = F.col(quote(column.name))
    row = read_frame(evaluator, snapshot).agg(F.max(value) if column.step > 0 else F.min(value)).first()
    return None if row is None or row[0] is None else int(row[0])


def _number(column: Identity, firsts: Mapping[str, int], row: Column) -> Column:
    return (F.lit(firsts[column.name]).cast("bigint") + row * F.lit(column.step).cast("bigint")).alias(column.name)


def numbered_by(tables: Target, updates: Sequence[Inserting], inserts: Sequence[Inserting], snapshot: Snapshot) -> list[Identity]:
    """The identity columns that the inserts of a MERGE leave out.  Raises StatementRefused for clauses that set what they may not."""
    for clause in updates:
        refuse_update(snapshot.schema, set(clause.sets), snapshot.table)
    for clause in inserts:
        refuse_explicit(snapshot.schema, {name.lower() for name in clause.sets}, snapshot.table)
    found = []
    for column in tables.identities if inserts else ():
        setting = [column.name in clause.sets for clause in inserts]
        if any(setting) and not all(setting):
            raise StatementRefused(
                f"Some WHEN NOT MATCHED clauses set the identity column {column.name} and others do not: let all of them set it, or none",
                what="an identity column that some clauses set",
                table=snapshot.table,
            )
        found += [] if all(setting) else [column]
    return found


def numbered_inserts(evaluator: Evaluator, tables: Target, columns: Sequence[Identity], source: Source, inserts: Resolved) -> Resolved:
    """The outputs of a MERGE's inserts with numbers in the identity columns; reserves one for each row of the source."""
    if not columns:
        return inserts
    firsts, bridge = evaluator.numbers(columns).take(source.num_rows), evaluator.bridge
    one = StructType([StructField(SOURCE_ROW, LongType(), False)])
    rows = bridge.local(bridge.seq([tables.source_row]), pa.table({SOURCE_ROW: pa.array([], pa.int64())}), one.json(), evaluator.session())
    frame = bridge.dataframe(rows, evaluator.spark)
    numbers = bridge.list(analyzed(frame.select(*(_number(i, firsts, bridge.column(tables.source_row)) for i in columns))).projectList())
    outputs = bridge.list(inserts.outputs)
    for column, number in zip(columns, numbers, strict=True):
        outputs[tables.schema.names.index(column.name)] = number
    return replace(inserts, outputs=bridge.seq(outputs))
