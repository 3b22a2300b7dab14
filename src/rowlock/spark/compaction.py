"""Compaction: small files, and files with many dead rows, into few; every output row knows its origin by order.

An output holds its inputs one after the other, each in its own order without the dead rows, so the
origin of every row follows from the inputs' vectors and nothing need be stored beside the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from rowlock.conflict.delta import Slice
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.deletion_vector import all_but, bitmap_to_numpy
from rowlock.protocol.partition_values import parse
from rowlock.spark.blocks import driver_block, file_block
from rowlock.spark.catalyst import nullable
from rowlock.spark.physical import names_in_files
from rowlock.spark.plane import LOCAL_ROWS, Plane
from rowlock.spark.row_ids import moving_frame
from rowlock.spark.scan import PATH, POSITION, empty_frame, local_frame, table_schema, wrap_session
from rowlock.spark.writer import write_native
from rowlock.transaction.effects import Provenance, RowBlock

_NUMBER = "__rowlock_n"


def files_where(plane: Plane, snapshot: Snapshot, condition: str | None) -> list[AddFile]:
    """The live files of the partitions for which `condition` is true; no job.  Raises AnalysisException, StatementRefused."""
    files = list(snapshot.files.adds())
    if condition is None:
        return files
    session, fields = wrap_session(plane.spark, plane.session()), nullable(table_schema(snapshot)).fields
    wanted = StructType([f for f in fields if f.name in snapshot.partition_columns])
    probe = empty_frame(session, StructType(fields)).where(condition)
    used = {a.name() for a in plane.bridge.list(probe._jdf.queryExecution().analyzed().condition().references().toSeq())}
    if not used <= set(wanted.names):
        text = f"Predicate references non-partition column '{min(used - set(wanted.names))}'. Only the partition columns may be referenced: [{', '.join(wanted.names)}]"
        raise StatementRefused(text, what=condition, table=plane.store.root)
    stored = [names_in_files(snapshot)[n] for n in wanted.names]
    held = sorted({tuple(f.partition_values.get(n) for n in stored) for f in files}, key=repr)
    types = [(f.name, f.type) for f in snapshot.schema.fields if f.name in wanted.names]
    arrays = [pa.array([parse(values[n], t) for values in held], to_arrow_type(t)) for n, (_, t) in enumerate(types)]
    table = pa.table([*arrays, pa.array(range(len(held)), pa.int64())], names=[*wanted.names, _NUMBER])
    chosen = local_frame(session, table, StructType([*wanted.fields, StructField(_NUMBER, LongType())])).where(condition).select(_NUMBER)
    kept = {held[row[0]] for row in chosen.collect()}
    return [f for f in files if tuple(f.partition_values.get(n) for n in stored) in kept]


def predicate_text(plane: Plane, condition: str) -> str:
    """A condition as delta-spark writes it into the log for OPTIMIZE: parsed, not yet resolved.  Raises Spark's ParseException."""
    return str(plane.spark._jsparkSession.sessionState().sqlParser().parseExpression(condition).toString())


def run(plane: Plane, groups: Sequence[Sequence[str]], slices: Sequence[Slice], snapshot: Snapshot, index: int) -> tuple[dict[str, BitMap64], list[RowBlock]]:
    """Tombstones for every live row of the groups' files, and one block of moved rows for each group."""
    pieces = {s.path: s for s in slices}
    tombstones: dict[str, BitMap64] = {}
    blocks: list[RowBlock] = []
    for number, group in enumerate(groups):
        inputs = [pieces[p] for p in group if p in pieces]
        origin = _origin(plane, inputs)
        tombstones |= origin.bitmaps()
        blocks.append(_moved(plane, inputs, origin, snapshot, index, number))
    return tombstones, blocks


def _origin(plane: Plane, inputs: Sequence[Slice]) -> Provenance:
    living = [bitmap_to_numpy(all_but(plane.num_rows(piece.file), piece.without)) for piece in inputs]
    files = np.repeat(np.arange(len(inputs), dtype=np.int32), [len(p) for p in living])
    return Provenance(tuple(s.path for s in inputs), files, np.concatenate(living) if living else np.empty(0, np.int64))


def _moved(plane: Plane, inputs: Sequence[Slice], origin: Provenance, snapshot: Snapshot, index: int, number: int) -> RowBlock:
    if sum(plane.num_rows(s.file) for s in inputs) <= LOCAL_ROWS:
        found = [plane.rows.read_slice(s, snapshot) for s in inputs]
        if all(f is not None for f in found):
            block = driver_block("derived", index, pa.concat_tables([f[0] for f in found if f is not None]), origin)
            return replace(block, group=number, moved=True)
    vectors = {s.path: s.without or BitMap64() for s in inputs}
    frame = moving_frame(plane.scanner, snapshot, [s.file for s in inputs], lambda f: vectors[f.path])
    place = F.create_map(*[x for n, s in enumerate(inputs) for x in (F.lit(plane.scanner.uri(s.file)), F.lit(n))])
    ordered = frame.withColumn("__n", place[F.col(PATH)]).coalesce(1).sortWithinPartitions("__n", POSITION).drop(PATH, POSITION, "__n")
    files = [f for _, f in write_native(ordered, plane.store, snapshot) if f.num_records]
    files.sort(key=lambda f: f.path)
    return replace(file_block("derived", index, files, number, origin), moved=True)
