"""Copy on write: writes the rows of a file that stay into new files, unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F

from rowlock.boundary.effects import StagedFile
from rowlock.boundary.row_identity import columns_of
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.row_ids import identities_in, moving_frame, with_identities
from rowlock.engines.spark.read.scan import PATH, POSITION
from rowlock.engines.spark.write.writer import write_native
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile

_GROUP = "__rowlock_copy"


def copy_slices(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> dict[str, list[StagedFile]]:
    """Writes the rows of each slice into new files, which are returned by the slice's path.  Small files on the driver, the others in one Spark job."""
    out: dict[str, list[StagedFile]] = {}
    large: list[Slice] = []
    for piece in slices:
        found = evaluator.rows.read_slice(piece, snapshot) if evaluator.num_rows(piece.file) <= limits().local_rows else None
        if found is None:
            large.append(piece)
        else:
            out[piece.path] = evaluator.rows.write(_with_ids(evaluator, piece, *found, snapshot), snapshot) if found[0].num_rows else []
    if large:
        out.update(_copy_large(evaluator, large, snapshot))
    return out


def _with_ids(evaluator: Evaluator, piece: Slice, table: pa.Table, positions: npt.NDArray[np.int64], snapshot: Snapshot) -> pa.Table:
    """The rows of a slice with the ids and commit versions that they keep."""
    if (columns := columns_of(snapshot)) is None:
        return table
    return with_identities(table, identities_in(piece, positions, evaluator.materialized_ids, columns), columns)


def _copy_large(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> dict[str, list[StagedFile]]:
    dead = {s.path: evaluator.dead_positions(s) for s in slices}
    scanner = evaluator.scanner
    frame = moving_frame(scanner, snapshot, [s.file for s in slices], lambda f: dead[f.path])
    number = F.create_map(*[x for n, s in enumerate(slices) for x in (F.lit(scanner.uri(s.file)), F.lit(n))])
    grouped = frame.withColumn(_GROUP, number[F.col(PATH)]).drop(PATH, POSITION)
    written: list[tuple[str | None, AddFile]] = write_native(grouped, evaluator.store, snapshot, group=_GROUP)
    out: dict[str, list[StagedFile]] = {s.path: [] for s in slices}
    for group, file in written:
        if file.num_records:
            out[slices[int(group or 0)].path].append(StagedFile(file))
    return out
