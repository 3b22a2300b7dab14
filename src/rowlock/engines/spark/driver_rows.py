"""Reads the rows of small data files, and few rows of large ones, to the driver; evaluates expressions over them without a Spark job.

Reads a file only where Arrow is certain to read it as Spark would; every other slice is handed back, for a scan (`scan_job`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from rowlock.boundary.provenance import Provenance
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.addressed_rows import Addressed, Found, addressed_by_index, in_slice
from rowlock.engines.spark.catalyst.analysis import Relation, Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject, to_arrow
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import PATH, POSITION
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot


def read_slice(evaluator: Evaluator, piece: Slice, snapshot: Snapshot) -> pa.Table:
    """The rows of a slice, in the order of its file.  One Spark job where Arrow cannot read the file."""
    found = evaluator.rows.read_slice(piece, snapshot)
    if found is not None:
        return found[0]
    dead = evaluator.dead_positions(piece)
    frame = evaluator.scanner.frame(snapshot, [piece.file], lambda _: dead, address=True)
    return to_arrow(frame).sort_by(POSITION).drop_columns([PATH, POSITION])


def read_small_slices(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> tuple[list[Found], list[Slice]]:
    """(rows that were read to the driver, slices left for a scan).  The smallest slices first, up to `limits().local_rows` rows in all.  No job."""
    found: list[Found] = []
    rest: list[Slice] = []
    budget = limits().local_rows
    for piece in sorted(slices, key=lambda s: (len(s.only) if s.only is not None else evaluator.num_rows(s.file), s.path)):
        size = len(piece.only) if piece.only is not None else evaluator.num_rows(piece.file)
        rows = evaluator.rows.read_slice(piece, snapshot) if size <= budget else None
        if rows is None:
            rest.append(piece)
        else:
            budget -= size
            found.append((piece, rows[0], rows[1]))
    return found, rest


def read_matching(
    evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot, mask_of: Callable[[pa.Table], Any], names: Sequence[str], limit: int | None = None
) -> tuple[list[Found], list[Slice]]:
    """(rows for which `mask_of` gives True over the columns `names`, slices left for a scan).  No job.

    The mask must keep every row that the statement may change; it may keep others.  Leaves all slices to the scan where
    they hold more than `limits().inspected_rows` rows or more than `limit` rows (default: `local_rows`) are found.
    """
    if evaluator.physical_rows(slices) > limits().inspected_rows:
        return [], list(slices)
    room = limits().local_rows if limit is None else limit
    found: list[Found] = []
    rest: list[Slice] = []
    for piece in slices:
        try:
            here = _matching(evaluator, piece, snapshot, mask_of, names, room)
        except pa.ArrowException:  # such as text of more than 2 GB in one column
            here = None
        if here is None:
            rest.append(piece)
            continue
        if here[0] > room:
            return [], list(slices)
        room -= here[0]
        if here[1] is not None:
            found.append(here[1])
    return found, rest


def _matching(
    evaluator: Evaluator, piece: Slice, snapshot: Snapshot, mask_of: Callable[[pa.Table], Any], names: Sequence[str], room: int
) -> tuple[int, Found | None] | None:
    """(the number of rows of a slice for which `mask_of` gives True, these rows); the rows are not read where there is none or more than `room`.

    None where Spark must read the file.
    """
    columns = evaluator.rows.read_columns(piece.file, names, snapshot)
    if columns is None:
        return None
    mask = mask_of(columns)
    if not isinstance(mask, np.ndarray):
        mask = np.asarray(pc.fill_null(mask, False).to_numpy(), dtype=np.bool_)
    positions = np.flatnonzero(mask).astype(np.int64)
    positions = positions[in_slice(piece, positions)]
    if not 0 < len(positions) <= room:
        return len(positions), None
    table = evaluator.rows.read_at(piece.file, positions, snapshot.schema.names, snapshot)
    return None if table is None else (len(positions), (piece, table, positions))


def add_columns(evaluator: Evaluator, rows: Addressed, missing: Sequence[str], slices: Sequence[Slice], snapshot: Snapshot) -> Addressed | None:
    """Rows that lack the columns `missing`, with these read from the rows' files; None where Spark must read them.  No job."""
    files = {s.path: s.file for s in slices}
    order = np.argsort(rows.origin.file, kind="stable")
    parts = []
    for n, path in enumerate(rows.origin.paths):
        at = rows.origin.position[rows.origin.file == n]
        part = evaluator.rows.read_at(files[path], at, missing, snapshot) if len(at) else None
        if part is None and len(at):
            return None
        if part is not None:
            parts.append(part)
    beside = pa.concat_tables(parts) if parts else None
    if beside is None:
        return None
    table, origin = rows.table.take(pa.array(order)), Provenance(rows.origin.paths, rows.origin.file[order], rows.origin.position[order])
    columns = [table.column(n) if n in table.column_names else beside.column(n) for n in snapshot.schema.names]
    return Addressed(pa.table(columns, names=list(snapshot.schema.names)), origin)


def rows_that_meet(evaluator: Evaluator, table: pa.Table, relation: Relation, condition: JavaObject, session: JavaObject) -> npt.NDArray[np.bool_] | None:
    """For which rows of a table of some columns of `relation` a condition is true; None where it raises.  No job."""
    names = [f.name for f in relation.schema.fields]
    chosen = [names.index(name) for name in (*table.column_names, POSITION)]
    some = Relation.of(evaluator.bridge, [relation.attributes[n] for n in chosen], StructType([relation.schema.fields[n] for n in chosen]))
    numbered = table.append_column(POSITION, pa.array(np.arange(table.num_rows, dtype=np.int64)))
    plan = evaluator.bridge.filter(condition, evaluator.bridge.local(some.seq, numbered, some.schema_json, session))
    plan = evaluator.bridge.project(evaluator.bridge.seq(some.attributes[-1:]), plan)
    try:
        found = evaluator.bridge.evaluate(plan, evaluator.spark, session)
    except (PySparkException, Py4JJavaError):  # a value that no row of the statement may have: it raises where a row has it
        return None
    out = np.zeros(table.num_rows, dtype=np.bool_)
    out[np.asarray(found.column(0).to_numpy(), dtype=np.int64)] = True
    return out


def evaluate(evaluator: Evaluator, rows: Addressed, relation: Relation, resolved: Resolved, session: JavaObject) -> Addressed:
    """The outputs of `resolved` for the rows that meet its condition.  The last two outputs must be the address.  No job."""
    plan = evaluator.bridge.local(relation.seq, rows.with_address_columns(), relation.schema_json, session)
    plan = resolved.over(evaluator.bridge, plan)
    return addressed_by_index(evaluator.bridge.evaluate(plan, evaluator.spark, session), rows.origin.paths)
