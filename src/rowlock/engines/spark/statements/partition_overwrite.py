"""Dynamic partition overwrite: the partitions that staged rows fall into, as the condition of the DELETE that makes room for them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from rowlock.boundary.effects import RowBlock
from rowlock.engines.spark.read.scan import table_schema
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import logical
from rowlock.parquet.physical import names_in_files
from rowlock.parquet.writing import split_by_partition
from rowlock.protocol.schema import quote

Partition = tuple[str | None, ...]
"""The values of a partition's columns, as the log spells them."""


def partitions_of(blocks: Sequence[RowBlock], snapshot: Snapshot) -> list[Partition]:
    """The partitions in which staged rows of an append lie, each once."""
    stored = names_in_files(snapshot)
    keys = [stored[c] for c in snapshot.metadata.partition_columns]
    found: dict[Partition, None] = {}
    for block in blocks:
        values = [f.partition_values for f in block.payload.files]
        values += [v for table in block.payload.tables for v, _ in split_by_partition(logical(table, snapshot), snapshot)]
        found.update(dict.fromkeys(tuple(v.get(k) or None for k in keys) for v in values))
    return list(found)


def condition_of(partitions: Sequence[Partition], snapshot: Snapshot) -> Column:
    """The condition that is true for the rows of these partitions and for no others."""
    types = {f.name: f.dataType for f in table_schema(snapshot).fields}
    names = list(snapshot.metadata.partition_columns)

    def is_one_of(number: int) -> Column:
        """Whether a column has a value that occurs: of one column this says all, of several it lets files be skipped."""
        column, values = F.col(quote(names[number])), list(dict.fromkeys(p[number] for p in partitions))
        some = column.isin(*[F.lit(v).cast(types[names[number]]) for v in values if v is not None])
        return some if None not in values else column.isNull() if values == [None] else some | column.isNull()

    def exactly(partition: Partition) -> Column:
        return _joined([F.col(quote(n)).eqNullSafe(F.lit(v).cast(types[n])) for n, v in zip(names, partition, strict=True)], any_of=False)

    if not partitions:
        return F.lit(False)
    columns = _joined([is_one_of(n) for n in range(len(names))], any_of=False)
    return columns if len(names) == 1 else columns & _joined([exactly(p) for p in partitions], any_of=True)


def _joined(parts: Sequence[Column], *, any_of: bool) -> Column:
    """The parts joined by OR or by AND, as a tree that is no deeper than it must be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _joined(parts[:half], any_of=any_of), _joined(parts[half:], any_of=any_of)
    return left | right if any_of else left & right
