"""Compaction: rewrites small files, and files with many dead rows, into few files, in their present order or in Z-order.

In present order an output holds its input files one after the other, each without its dead rows.  Where Spark writes the
rows, their origin is read back from the new files (`stored_origin`), never concluded from the order in which Spark got them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rowlock.boundary.effects import Provenance, RowBlock
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.bridge import bare, nullable
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.row_ids import moving_frame
from rowlock.engines.spark.read.scan import PATH, POSITION, empty_frame, local_frame, quote, table_schema, wrap_session
from rowlock.engines.spark.read.stored_origin import stored_origin
from rowlock.engines.spark.statements.z_order import Order, local_order, ordered_frame
from rowlock.engines.spark.write.writer import write_native
from rowlock.exceptions import CorruptLog, StatementRefused
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, file_block
from rowlock.parquet.physical import names_in_files
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import with_clustering
from rowlock.protocol.deletion_vector import bitmap_to_numpy, positions_except

_INPUT_NUMBER = "__rowlock_n"


def files_where(evaluator: Evaluator, snapshot: Snapshot, condition: str | None) -> list[AddFile]:
    """The live files whose partition values meet `condition`; all live files where it is None.  No job.  Raises AnalysisException, StatementRefused."""
    files = list(snapshot.files.adds())
    if condition is None:
        return files
    session, fields = wrap_session(evaluator.spark, evaluator.session()), nullable(table_schema(snapshot)).fields
    wanted = StructType([f for f in fields if f.name in snapshot.partition_columns])
    probe = empty_frame(session, StructType(fields)).where(condition)
    used = {a.name() for a in evaluator.bridge.list(probe._jdf.queryExecution().analyzed().condition().references().toSeq())}
    if not used <= set(wanted.names):
        text = f"Predicate references non-partition column '{min(used - set(wanted.names))}'. Only the partition columns may be referenced: [{', '.join(wanted.names)}]"
        raise StatementRefused(text, what=condition, table=evaluator.store.root)
    stored = [names_in_files(snapshot)[n] for n in wanted.names]
    held = sorted({tuple(f.partition_values.get(n) for n in stored) for f in files}, key=repr)
    texts = [pa.array([values[n] or None for values in held], pa.string()) for n in range(len(stored))]
    table = pa.table([*texts, pa.array(range(len(held)), pa.int64())], names=[*wanted.names, _INPUT_NUMBER])
    frame = local_frame(session, table, StructType([*(StructField(n, StringType()) for n in wanted.names), StructField(_INPUT_NUMBER, LongType())]))
    typed = frame.select(*(F.col(quote(f.name)).cast(bare(f.dataType)).alias(f.name) for f in wanted.fields), _INPUT_NUMBER)  # cast as a scan casts them
    chosen = typed.where(condition).select(_INPUT_NUMBER)
    kept = {held[row[0]] for row in chosen.collect()}
    return [f for f in files if tuple(f.partition_values.get(n) for n in stored) in kept]


def predicate_text(evaluator: Evaluator, condition: str) -> str:
    """A condition as delta-spark writes it into the log for OPTIMIZE: parsed, not yet resolved.  Raises Spark's ParseException."""
    return str(evaluator.spark._jsparkSession.sessionState().sqlParser().parseExpression(condition).toString())


def run(
    evaluator: Evaluator, groups: Sequence[Sequence[str]], order: Order | None, slices: Sequence[Slice], snapshot: Snapshot, index: int
) -> tuple[dict[str, BitMap64], list[RowBlock]]:
    """Tombstones for every live row of the groups' files, and one block of moved rows for each group."""
    pieces = {s.path: s for s in slices}
    tombstones: dict[str, BitMap64] = {}
    blocks: list[RowBlock] = []
    for number, group in enumerate(groups):
        inputs = [pieces[p] for p in group if p in pieces]
        origin = _origin(evaluator, inputs)
        tombstones |= origin.bitmaps()
        moved = _moved(evaluator, inputs, origin, snapshot) if order is None else _ordered(evaluator, inputs, origin, order, snapshot)
        blocks.append(replace(moved, statement=index, group=number, moved=True))
    return tombstones, blocks


def _origin(evaluator: Evaluator, inputs: Sequence[Slice]) -> Provenance:
    """The addresses of all live rows of the inputs, in the order of the files."""
    living = [bitmap_to_numpy(positions_except(evaluator.num_rows(piece.file), piece.without)) for piece in inputs]
    files = np.repeat(np.arange(len(inputs), dtype=np.int32), [len(p) for p in living])
    return Provenance(tuple(s.path for s in inputs), files, np.concatenate(living) if living else np.empty(0, np.int64))


def _read(evaluator: Evaluator, inputs: Sequence[Slice], snapshot: Snapshot) -> pa.Table | None:
    """The live rows of the inputs; None where they are many or Arrow cannot read them as Spark would."""
    if sum(evaluator.num_rows(s.file) for s in inputs) > limits().local_rows:
        return None
    found = [evaluator.rows.read_slice(s, snapshot) for s in inputs]
    return pa.concat_tables([f[0] for f in found if f is not None]) if inputs and all(f is not None for f in found) else None


def _frame(evaluator: Evaluator, inputs: Sequence[Slice], snapshot: Snapshot) -> tuple[DataFrame, Column]:
    """(the live rows of the inputs with their row ids and addresses, the Column that numbers the input file of a row)."""
    vectors = {s.path: s.without or BitMap64() for s in inputs}
    frame = moving_frame(evaluator.scanner, snapshot, [s.file for s in inputs], lambda f: vectors[f.path])
    place = F.create_map(*[x for n, s in enumerate(inputs) for x in (F.lit(evaluator.scanner.uri(s.file)), F.lit(n))])
    return frame, place[F.col(PATH)]


def _written(evaluator: Evaluator, frame: DataFrame, inputs: Sequence[Slice], origin: Provenance, order: Order | None, snapshot: Snapshot) -> RowBlock:
    """The block of the rows that Spark writes, with the origin that their files hold.  Raises CorruptLog where these are not exactly the rows of `origin`."""
    values = [dict(s.file.partition_values) for s in inputs]
    assert all(v == values[0] for v in values), "a bin lies within one partition"
    files = sorted((f for _, f in write_native(frame, evaluator.store, snapshot, values=values[0]) if f.num_records), key=lambda f: f.path)
    if order is not None and order.clustered_by:
        files = [with_clustering(f, order.clustered_by) for f in files]
    found = stored_origin(files, evaluator.store)
    if len(found.position) != len(origin.position) or found.bitmaps() != origin.bitmaps():
        text = f"The files {', '.join(s.path for s in inputs[:3])}{'' if len(inputs) <= 3 else ' ...'} hold other rows than the log says: {len(found.position):,}, not {len(origin.position):,}. See rowlock check; nothing was committed"
        raise CorruptLog(text, table=evaluator.store.root)
    return file_block("derived", 0, files, origin=found)


def _moved(evaluator: Evaluator, inputs: Sequence[Slice], origin: Provenance, snapshot: Snapshot) -> RowBlock:
    """The rows of the inputs in their present order, as a block of one file."""
    if (table := _read(evaluator, inputs, snapshot)) is not None:
        return driver_block("derived", 0, table, origin)
    frame, number = _frame(evaluator, inputs, snapshot)
    rows = frame.withColumn(_INPUT_NUMBER, number).coalesce(1).sortWithinPartitions(_INPUT_NUMBER, POSITION).drop(_INPUT_NUMBER)
    return _written(evaluator, rows, inputs, origin, None, snapshot)


def _ordered(evaluator: Evaluator, inputs: Sequence[Slice], origin: Provenance, order: Order, snapshot: Snapshot) -> RowBlock:
    """The rows of the inputs sorted by `order`, in files of about `order.target_bytes`."""
    num_rows = len(origin.position)
    num_files = min(max(1, num_rows), -(-sum(map(_live_bytes, inputs)) // order.target_bytes))
    if num_files <= 1 and (table := _read(evaluator, inputs, snapshot)) is not None:
        along = local_order(table, order.columns)
        block = driver_block("derived", 0, table.take(pa.array(along)), origin.take(along))
        return replace(block, payload=replace(block.payload, clustered_by=order.clustered_by))
    frame, number = _frame(evaluator, inputs, snapshot)
    rows = ordered_frame(frame, order.columns, max(1, num_files), num_rows, [number, F.col(POSITION)])
    return _written(evaluator, rows, inputs, origin, order, snapshot)


def _live_bytes(piece: Slice) -> int:
    rows, live = piece.file.num_records, piece.num_rows
    return piece.file.size_bytes if not rows or live is None else piece.file.size_bytes * live // rows
