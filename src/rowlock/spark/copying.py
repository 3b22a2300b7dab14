"""Copy on write: the rows of a file that stay, written again without a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F

from rowlock.conflict.delta import Slice
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.spark.plane import Plane
from rowlock.spark.row_ids import moving_frame, of_slice, with_identities
from rowlock.spark.scan import PATH, POSITION
from rowlock.spark.writer import write_native
from rowlock.transaction.effects import StagedFile
from rowlock.transaction.row_ids import columns_of

_GROUP = "__rowlock_copy"


def copy_slices(plane: Plane, slices: Sequence[Slice], snapshot: Snapshot) -> dict[str, list[StagedFile]]:
    """New files with the rows of each slice, by the slice's path.  Small ones on the driver, the others in one job."""
    out: dict[str, list[StagedFile]] = {}
    large: list[Slice] = []
    for piece in slices:
        found = plane.rows.read_slice(piece, snapshot) if plane.num_rows(piece.file) <= limits().local_rows else None
        if found is None:
            large.append(piece)
        else:
            out[piece.path] = plane.rows.write(_with_ids(plane, piece, *found, snapshot), snapshot) if found[0].num_rows else []
    if large:
        out.update(_copy_large(plane, large, snapshot))
    return out


def _with_ids(plane: Plane, piece: Slice, table: pa.Table, positions: npt.NDArray[np.int64], snapshot: Snapshot) -> pa.Table:
    """The rows of a slice with the ids and commit versions that they keep."""
    if (columns := columns_of(snapshot)) is None:
        return table
    return with_identities(table, of_slice(piece, positions, plane.materialized_ids, columns), columns)


def _copy_large(plane: Plane, slices: Sequence[Slice], snapshot: Snapshot) -> dict[str, list[StagedFile]]:
    dead = {s.path: plane.dead(s) for s in slices}
    frame = moving_frame(plane.scanner, snapshot, [s.file for s in slices], lambda f: dead[f.path])
    number = F.create_map(*[x for n, s in enumerate(slices) for x in (F.lit(plane.scanner.uri(s.file)), F.lit(n))])
    grouped = frame.withColumn(_GROUP, number[F.col(PATH)]).drop(PATH, POSITION)
    written: list[tuple[str | None, AddFile]] = write_native(grouped, plane.store, snapshot, group=_GROUP)
    out: dict[str, list[StagedFile]] = {s.path: [] for s in slices}
    for group, file in written:
        if file.num_records:
            out[slices[int(group or 0)].path].append(StagedFile(file))
    return out
