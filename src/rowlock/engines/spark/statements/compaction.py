"""Compaction: rewrites small files, and files with many dead rows, into few files, in their present order or in Z-order.

In present order an output holds its input files one after the other, each without its dead rows.  Arrow moves the rows where it can (`parquet.moving`).
Where Spark writes them, their origin is read back from the new files (`stored_origin`), never concluded from the order in which Spark got them.
In Z-order Spark looks up the same table of the Hilbert curve.  Ranks go by a sample.  Times count as instants, so that no time zone changes the order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark import inheritable_thread_target
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import ArrayType, LongType, TimestampType

from rowlock import progress
from rowlock.boundary.effects import RowBlock
from rowlock.boundary.provenance import Origin
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import POSITION, Scanner, wrap_session
from rowlock.engines.spark.read.stored_origin import stored_origin
from rowlock.engines.spark.write.writer import write_native
from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import file_block
from rowlock.parquet.curves import ALL_BITS, Order, bits_of, cuts, hilbert_table
from rowlock.parquet.moving import Living, move_rows, moved_origin, sort_rows
from rowlock.parquet.physical import Doubtful
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import with_clustering
from rowlock.protocol.schema import ColumnPath, quote
from rowlock.threads import side_by_side
from rowlock.transaction.state.call import most_records

_INPUT_NUMBER = "__rowlock_n"
_MOST_BINS = 15
"""Bins that executors write at the same time, at most; each has a thread of the driver."""


def run(
    evaluator: Evaluator, groups: Sequence[Sequence[str]], order: Order | None, slices: Sequence[Slice], snapshot: Snapshot, index: int
) -> tuple[dict[str, BitMap64], list[RowBlock]]:
    """Tombstones for every live row of the groups' files, and one block of moved rows for each group."""
    pieces = {s.path: s for s in slices}
    living = {p: pieces[p].positions(evaluator.count) for group in groups for p in group if p in pieces}

    progress.step("rewriting files")

    def rewritten(number: int) -> RowBlock:
        inputs = [pieces[p] for p in groups[number] if p in pieces]
        moved = _moved(evaluator, inputs, living, snapshot) if order is None else _ordered(evaluator, inputs, living, order, snapshot)
        progress.one_more(len(groups), "bins")
        return replace(moved, statement=index, group=number, moved=True)

    # each bin in copies of its own of the caller's job group, tags and scheduler pool: a thread changes what it is given
    bins = [inheritable_thread_target(evaluator.spark)(functools.partial(rewritten, n)) for n in range(len(groups))]
    most = limits().file_threads if _is_local(evaluator) else _MOST_BINS
    workers = max(1, min(evaluator.spark.sparkContext.defaultParallelism, most))  # a bin is written by one task or few
    blocks = side_by_side(lambda rewrite: rewrite(), bins, workers)
    pa.default_memory_pool().release_unused()  # what row groups took, which Arrow would keep
    return {p: rows for p, rows in living.items() if rows}, blocks


def _whole_files(evaluator: Evaluator) -> Scanner:
    """A scanner whose scans read all their files in one task, none of them split, so that rows stay in the order of their file without a sort."""
    session = evaluator.session()
    session.conf().set("spark.sql.files.maxPartitionBytes", str(2**63 - 1))
    session.conf().set("spark.sql.files.minPartitionNum", "1")
    return Scanner(wrap_session(evaluator.spark, session), evaluator.root)


def _written(evaluator: Evaluator, frame: DataFrame, inputs: Sequence[Slice], living: Living, order: Order | None, snapshot: Snapshot) -> RowBlock:
    """The block of the rows that Spark writes, with the origin that their files hold.  Raises CorruptLog where these are not exactly the live rows of the inputs."""
    values = dict(inputs[0].file.partition_values)  # those of one partition, which other files may spell otherwise
    files = sorted((f for _, f in write_native(frame, evaluator.store, snapshot, values=values)), key=lambda f: f.path)
    found = stored_origin(files, evaluator.store, evaluator.paths_by_hash(inputs))
    wanted = {s.path: living[s.path] for s in inputs if living[s.path]}
    num_rows = sum(map(len, wanted.values()))
    if found.num_rows != num_rows or found.bitmaps() != wanted:
        text = f"The files {', '.join(s.path for s in inputs[:3])}{'' if len(inputs) <= 3 else ' ...'} hold other rows than the log says: {found.num_rows:,}, not {num_rows:,}. See rowlock check; nothing was committed"
        raise CorruptLog(text, table=evaluator.store.root)
    return _block(files, found, order)


def _block(files: Sequence[AddFile], origin: Origin, order: Order | None = None) -> RowBlock:
    """The block of moved rows in new files, which are marked as clustered where they are."""
    clustering = None if order is None else order.clustering
    return file_block("derived", 0, files if clustering is None else [with_clustering(f, clustering) for f in files], origin=origin)


def _moved(evaluator: Evaluator, inputs: Sequence[Slice], living: Living, snapshot: Snapshot) -> RowBlock:
    """The rows of the inputs in their present order, as a block of one file, or of several where the session says how many rows a file holds at most."""
    if _is_for_arrow(evaluator, inputs):
        with suppress(Doubtful):
            files = move_rows(evaluator.store, inputs, living, snapshot, max_records=most_records(), case_sensitive=evaluator.rows.case_sensitive)
            return _block(files, moved_origin(inputs, living))
    frame = evaluator.live_frame(snapshot, inputs, address=True, ids=True, scanner=_whole_files(evaluator))
    return _written(evaluator, frame.coalesce(1), inputs, living, None, snapshot)


def _is_for_arrow(evaluator: Evaluator, inputs: Sequence[Slice]) -> bool:
    """Whether the driver is to rewrite a bin.  On a cluster the executors do, if the rows are many: they are nearer to the store, and more."""
    if sum(s.file.size_bytes for s in inputs) > limits().moved_bytes:
        return False
    return _is_local(evaluator) or evaluator.physical_rows(inputs) <= limits().local_rows


def _is_local(evaluator: Evaluator) -> bool:
    return str(evaluator.spark.sparkContext.master).startswith("local")


def _ordered(evaluator: Evaluator, inputs: Sequence[Slice], living: Living, order: Order, snapshot: Snapshot) -> RowBlock:
    """The rows of the inputs sorted by `order`, in files of about `order.target_bytes`."""
    num_rows = sum(len(living[s.path]) for s in inputs)
    num_files = max(1, min(num_rows, -(-sum(map(_live_bytes, inputs)) // order.target_bytes)))
    if _is_for_arrow(evaluator, inputs):
        with suppress(Doubtful):
            most, case_sensitive = most_records(), evaluator.rows.case_sensitive
            done = sort_rows(evaluator.store, inputs, living, snapshot, order, num_files, max_records=most, case_sensitive=case_sensitive)
            return _block(*done, order)
    number = {s.path: n for n, s in enumerate(inputs)}
    frame = evaluator.live_frame(snapshot, inputs, address=True, ids=True, constants={_INPUT_NUMBER: (LongType(), lambda f: number[f.path])})
    rows = ordered_frame(frame, order, num_files, num_rows, [F.col(_INPUT_NUMBER), F.col(POSITION)])
    return _written(evaluator, rows.drop(_INPUT_NUMBER), inputs, living, order, snapshot)


def _live_bytes(piece: Slice) -> int:
    rows, live = piece.file.num_records, piece.num_rows
    return piece.file.size_bytes if not rows or live is None else piece.file.size_bytes * live // rows


_SAMPLED_PER_FILE = 100
_SEPARATOR = "\x01"
"""Between bounds in their text form; a value that contains it moves some bounds and does no other harm."""
_NUMBER, _FILE, _RANK, _STATE = "__rowlock_along", "__rowlock_file", "__rowlock_rank_{}", "__rowlock_state_{}"


def ordered_frame(frame: DataFrame, order: Order, num_files: int, num_rows: int, ties: Sequence[Column]) -> DataFrame:
    """The rows in their new order, in about `num_files` partitions; rows with equal values are sorted by `ties`.

    One or two Spark jobs over a sample of the columns; everything else is native expressions.
    """
    values = [_comparable(frame, c) for c in order.columns]
    if len(values) == 1:
        spread = frame.coalesce(1) if num_files == 1 else frame.repartitionByRange(num_files, *values, *ties)  # the ties divide a value that fills files
        return spread.sortWithinPartitions(*values, *ties)
    bits = bits_of(values, num_rows)
    names = [_RANK.format(n) for n in range(len(values))]
    bounds = _bounds(frame, values, bits, num_rows)
    placed = _searched(frame, dict(zip(names, zip(values, bounds, strict=True), strict=True)), bits)
    along = (_along_hilbert if order.hilbert else _along_z)(placed, names, bits)
    spread = along.coalesce(1) if num_files == 1 else _spread(along, values, num_files, num_rows, ties)
    return spread.sortWithinPartitions(_NUMBER, *values, *ties).drop(_NUMBER, _FILE, *names, *(_STATE.format(bit) for bit in range(bits)))


def _comparable(frame: DataFrame, path: ColumnPath) -> Column:
    """A column as it is ranked: instants as numbers, whose text depends on no time zone."""
    column = F.col(".".join(quote(part) for part in path))
    return F.unix_micros(column) if isinstance(frame.select(column).schema.fields[0].dataType, TimestampType) else column


def _along_z(frame: DataFrame, names: Sequence[str], bits: int) -> DataFrame:
    """The frame with the number of each row's cell in Z-order; `names`: the columns of its places."""
    z = F.lit(0).cast("bigint")
    for bit in range(bits - 1, -1, -1):
        for name in names:
            z = F.shiftleft(z, 1).bitwiseOR(F.shiftright(F.col(name), bit).bitwiseAND(F.lit(1)).cast("bigint"))
    return frame.withColumn(_NUMBER, z)


def _along_hilbert(frame: DataFrame, names: Sequence[str], bits: int) -> DataFrame:
    """The frame with the number of each row's cell along a Hilbert curve; one look into the curve's table for each bit."""
    directions, table = len(names), F.lit(hilbert_table(len(names)).tolist())
    states = [_STATE.format(bit) for bit in range(bits)]
    for bit in range(bits - 1, -1, -1):
        corner = F.lit(0)
        for n, name in enumerate(names):
            corner = corner + F.shiftleft(F.shiftright(F.col(name), bit).bitwiseAND(F.lit(1)), n)
        state = F.lit(0) if bit == bits - 1 else F.shiftleft(F.shiftright(F.col(states[bit + 1]), directions), directions)
        frame = frame.withColumn(states[bit], F.get(table, state + corner).cast("int"))
    number = F.lit(0).cast("bigint")
    for bit in range(bits - 1, -1, -1):
        number = F.shiftleft(number, directions).bitwiseOR(F.col(states[bit]).bitwiseAND(F.lit((1 << directions) - 1)).cast("bigint"))
    return frame.withColumn(_NUMBER, number)


def _spread(frame: DataFrame, values: Sequence[Column], num_files: int, num_rows: int, ties: Sequence[Column]) -> DataFrame:
    """The rows in a partition for each file, cut where the curve leaves large squares.

    Spark 4.0 cannot name a row's partition, and a sample of few rows says little: there Spark divides the rows.
    """
    sample = _sampled(frame, num_rows, _SAMPLED_PER_FILE * num_files).select(_NUMBER).toArrow().column(0).to_numpy()
    if len(sample) < 2 * num_files or not hasattr(frame, "repartitionById"):
        return frame.repartitionByRange(num_files, F.col(_NUMBER), *values)
    found = cuts(sample, num_files)
    starts = F.lit(list(found.starts[1:]) or [2**ALL_BITS]).cast("array<bigint>")
    placed = _searched(frame, {_FILE: (F.col(_NUMBER), starts)}, len(found.starts).bit_length())
    if max(found.files) > 1:  # rows of one cell in several files: divided by their addresses
        first = np.cumsum([0, *found.files[:-1]]).tolist()
        within = F.pmod(F.xxhash64(*ties), F.get(F.lit(list(found.files)), F.col(_FILE)))
        placed = placed.withColumn(_FILE, (F.get(F.lit(first), F.col(_FILE)) + within).cast("int"))
    return placed.repartitionById(sum(found.files), F.col(_FILE))


def _sampled(frame: DataFrame, num_rows: int, at_least: int = 0) -> DataFrame:
    fraction = min(1.0, max(limits().sampled_rows, at_least) / max(1, num_rows))
    return frame if fraction == 1.0 else frame.sample(fraction=fraction, seed=17)


def _searched(frame: DataFrame, wanted: Mapping[str, tuple[Column, Column]], bits: int) -> DataFrame:
    """The frame with new columns: by name, for (value, ascending bounds), how many of the at most 2^bits - 1 bounds are not above the value.

    A binary search, one step for each projection.
    """
    for step in range(bits - 1, -1, -1):
        first = step == bits - 1
        frame = frame.withColumns({name: _step(name, value, bound, 1 << step, first=first) for name, (value, bound) in wanted.items()})
    return frame


def _bounds(frame: DataFrame, values: Sequence[Column], bits: int, num_rows: int) -> list[Column]:
    """For each column an array of 2^bits - 1 ascending values between which about equally many rows lie.

    The values pass through text: what text loses of a value only moves a bound a little.
    """
    sample = _sampled(frame.select(*(v.alias(f"c{n}") for n, v in enumerate(values))), num_rows)
    types = [f.dataType for f in sample.schema.fields]
    ordered = sample.agg(*(F.sort_array(F.collect_list(f"c{n}")).alias(f"c{n}") for n in range(len(values))))
    wanted = (1 << bits) - 1
    picked = [_picked(f"c{n}", wanted) for n in range(len(values))]
    row = ordered.select(*(p.alias(f"c{n}") for n, p in enumerate(picked))).collect()[0]
    return [F.split(F.lit(_SEPARATOR.join(row[n] or [])), _SEPARATOR).try_cast(ArrayType(types[n])) for n in range(len(values))]


def _picked(name: str, wanted: int) -> Column:
    """`wanted` values at even distances out of a sorted array, as text; null where the array is empty."""
    size = F.size(name)
    at = F.sequence(F.lit(0), F.lit(wanted - 1))
    return F.when(size > 0, F.transform(at, lambda i: F.element_at(name, (F.floor(i * size / wanted) + 1).cast("int")).cast("string")))


def _step(name: str, value: Column, bound: Column, step: int, *, first: bool) -> Column:
    """The row's place after one more step of a binary search: the number of bounds not above the value, as far as it is known."""
    at = F.lit(0) if first else F.col(name)
    return at + F.when(F.get(bound, at + F.lit(step - 1)) <= value, F.lit(step)).otherwise(F.lit(0))
