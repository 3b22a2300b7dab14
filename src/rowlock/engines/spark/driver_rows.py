"""Rows on the driver together with their addresses, the data file and the physical position that each comes from: read from small files, or found by a job.

A file is read here only where Arrow is certain to read it as Spark would; expressions are then evaluated without a Spark job.  Every other slice
is left to one job, which brings the resulting rows.  `Ways` has a line for each statement on how its rows were found and written (`Receipt.ways`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rowlock import display
from rowlock.boundary.provenance import Provenance
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.analysis import Relation, Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject, rows_at_once, to_arrow
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import FROM, POSITION, in_jvm
from rowlock.exceptions import InvalidInput
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.deletion_vector import bitmap_to_numpy

Positions = npt.NDArray[np.int64]
Found = tuple[Slice, pa.Table, Positions]
"""A slice, rows of it that were read to the driver, and the physical position of each of these rows."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """Rows as an Arrow table, and the address of each row in `origin`, in the same order."""

    table: pa.Table
    origin: Provenance

    @classmethod
    def of(cls, found: Sequence[Found]) -> Addressed | None:
        """Rows of several slices as one table; None where there is no row."""
        held = [(s, t, p) for s, t, p in found if t.num_rows]
        if not held:
            return None
        files = np.repeat(np.arange(len(held), dtype=np.int32), [t.num_rows for _, t, _ in held])
        origin = Provenance(tuple(s.path for s, _, _ in held), files, np.concatenate([p for _, _, p in held]))
        return cls(pa.concat_tables([t for _, t, _ in held]), origin)

    @property
    def num_rows(self) -> int:
        return len(self.origin.file)

    def filter(self, mask: npt.NDArray[np.bool_]) -> Addressed:
        """The rows where `mask` is True."""
        return self if mask.all() else Addressed(self.table.filter(pa.array(mask)), self.origin.take(mask))

    def with_address_columns(self) -> pa.Table:
        """The rows with two more columns: FROM, which holds the file's index in `origin.paths`, and POSITION."""
        table = self.table.append_column(FROM, pa.array(self.origin.file, pa.int64()))
        return table.append_column(POSITION, pa.array(self.origin.position))


def addressed(result: pa.Table, names: Mapping[int, str]) -> Addressed:
    """Rows whose last two columns are FROM and POSITION, with provenance by the paths that `names` has for the numbers in FROM."""
    column, position = result.column(result.num_columns - 2), result.column(result.num_columns - 1)
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded if isinstance(encoded, pa.DictionaryArray) else pa.concat_arrays(encoded.chunks)
    files = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int32)
    origin = Provenance(tuple(names[number] for number in encoded.dictionary.to_pylist()), files, np.asarray(position.to_numpy(), dtype=np.int64))
    return Addressed(result.select(list(range(result.num_columns - 2))), origin)


def in_slice(piece: Slice, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each physical position whether its row lies in the slice."""
    if piece.only is None and not piece.without:
        return np.ones(len(positions), dtype=np.bool_)
    marked = np.isin(positions, bitmap_to_numpy(piece.only if piece.only is not None else piece.without or BitMap64()))
    return marked if piece.only is not None else ~marked


class LeftToSpark(Exception):
    """The rows are more than may come to the driver (`limits().driver_rows`), or Arrow cannot read them; the caller lets Spark write them."""


def most_rows(row_bytes: float) -> int:
    """How many rows of so many bytes may come to the driver."""
    return min(limits().driver_rows, int(limits().driver_bytes / max(1.0, row_bytes)))


def row_bytes(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> float:
    """The bytes that a row of some slices takes, estimated: eight for each column, or what it takes in its file where that is more."""
    return max(8.0 * len(snapshot.schema.fields), sum(s.file.size_bytes for s in slices) / max(1, evaluator.physical_rows(slices)))


def check_count(num_rows: int, most: int) -> None:
    """Raises LeftToSpark for more rows than may come to the driver, as `most_rows` says."""
    if num_rows > most:
        raise LeftToSpark(f"more than {most:,}: {'driver_rows' if most == limits().driver_rows else 'driver_bytes'}")


def _check_size(num_bytes: float) -> None:
    """Raises LeftToSpark for rows of more bytes than may come to the driver."""
    if num_bytes > limits().driver_bytes:
        raise LeftToSpark(f"more than {display.size(limits().driver_bytes)}: driver_bytes")


def arrow_if_small(df: DataFrame) -> pa.Table | None:
    """The rows of a DataFrame on the driver; None where they are more bytes than Spark hands over (`spark.driver.maxResultSize`).  One job."""
    try:
        return to_arrow(df)
    except (PySparkException, Py4JJavaError) as e:
        if "spark.driver.maxResultSize" not in str(e):
            raise
        return None


def first_if_small(df: DataFrame, first: int = -1) -> pa.Table | None:
    """So many rows of a DataFrame, or all, on the driver; None where they are more than `limits().driver_bytes`, at which each task stops, or than Spark hands over.  One job."""
    most = limits().driver_bytes
    table = arrow_if_small(DataFrame(in_jvm(df.sparkSession).within(df._jdf, first, most, limits().append_driver_bytes), df.sparkSession))
    if table is None or table.column_names[-1:] != ["__rowlock_bytes"]:
        return table
    sums, table = table.columns[-1], table.remove_column(table.num_columns - 1)
    return table if max(table.nbytes, pc.max(sums).as_py() or 0) <= most else None


def scan(
    evaluator: Evaluator,
    slices: Sequence[Slice],
    relation: Relation,
    resolved: Resolved,
    session: JavaObject,
    snapshot: Snapshot,
    *,
    join: Callable[[JavaObject], JavaObject] | None = None,
    any_number: bool = False,
) -> Addressed:
    """The outputs of `resolved` for the rows of `slices` that meet its condition, in one job.  The last two outputs must be the address.

    `join` wraps the plan of the files, before the condition.  Dead rows are filtered on the driver, which is faster than in Spark.  Where an expression
    fails (under ANSI it may, on a dead row) the scan is repeated with the dead rows taken off inside Spark.
    Raises Spark's errors, and without `any_number` LeftToSpark for more rows than may come to the driver.
    """
    bridge, files, narrow = evaluator.bridge, [s.file for s in slices], join is None and resolved.outputs.size() == 2
    most = limits().driver_rows if narrow else most_rows(row_bytes(evaluator, slices, snapshot))
    bounded = join is not None or evaluator.physical_rows(slices) > (limits().unbounded_scan_rows if narrow else most)
    if sum(f.size_bytes for f in files) <= limits().single_task_bytes:
        session.conf().set("spark.sql.files.minPartitionNum", "1")

    def collected(child: JavaObject) -> pa.Table:
        frame = bridge.dataframe(resolved.over(bridge, child if join is None else join(child)), evaluator.spark, session)
        if any_number:
            return to_arrow(frame)
        if (found := arrow_if_small(frame.limit(most + 1) if bounded else frame)) is None:
            raise LeftToSpark("more bytes than Spark hands over: spark.driver.maxResultSize")
        return found

    try:
        table = collected(evaluator.physical_plan(snapshot, files, relation))
    except PySparkException:
        if not any(s.without or s.only is not None for s in slices):
            raise
        table = collected(evaluator.live_plan(snapshot, slices, relation.attributes))
    if not any_number:
        check_count(table.num_rows, most)
    return rows_in_slices(addressed(table, evaluator.paths_by_hash(slices)), slices)


def rows_in_slices(rows: Addressed, slices: Sequence[Slice]) -> Addressed:
    """The rows that lie in `slices`, of which every file of `rows` has one: without dead rows and rows that are not asked for."""
    pieces = {s.path: s for s in slices}
    mask = np.ones(rows.num_rows, dtype=np.bool_)
    for index, path in enumerate(rows.origin.paths):
        piece = pieces[path]
        if piece.only is not None or piece.without:
            at = np.flatnonzero(rows.origin.file == index)
            mask[at] = in_slice(piece, rows.origin.position[at])
    return rows.filter(mask)


def read_slice(evaluator: Evaluator, piece: Slice, snapshot: Snapshot) -> pa.Table:
    """The rows of a slice, in the order of its file.  One Spark job where Arrow cannot read the file."""
    found = evaluator.rows.read_slice(piece, snapshot)
    if found is not None:
        return found[0]
    return to_arrow(evaluator.live_frame(snapshot, [piece], address=True)).sort_by(POSITION).drop_columns([FROM, POSITION])


def read_slices(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> list[pa.Table] | None:
    """The rows of each slice; None where Arrow cannot read one as Spark would.  No job."""
    out: list[pa.Table] = []
    for piece in slices:
        if (found := evaluator.rows.read_slice(piece, snapshot)) is None:
            return None
        out.append(found[0])
    return out


def read_small_slices(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> tuple[list[Found], list[Slice]]:
    """(rows that were read to the driver, slices left for a scan).  The smallest slices first, up to `limits().local_rows` rows and `driver_bytes` in all.  No job."""
    found: list[Found] = []
    rest: list[Slice] = []
    budget, room = limits().local_rows, limits().driver_bytes
    for size, _, piece in sorted((evaluator.rows_to_read(s), s.path, s) for s in slices):
        few = size <= budget and size * row_bytes(evaluator, [piece], snapshot) <= room
        rows = evaluator.rows.read_slice(piece, snapshot) if few else None
        if rows is None or rows[0].nbytes > room:
            rest.append(piece)
        else:
            budget, room = budget - size, room - rows[0].nbytes
            found.append((piece, rows[0], rows[1]))
    return found, rest


def read_matching(
    evaluator: Evaluator,
    slices: Sequence[Slice],
    snapshot: Snapshot,
    mask_of: Callable[[pa.Table], Any],
    names: Sequence[str],
    wanted: Sequence[str],
    most: int,
    *,
    any_size: bool = False,
) -> tuple[list[Found], list[Slice]]:
    """(the columns `wanted` of rows for which `mask_of` gives True over the columns `names`, slices left for a job).  No job.

    The mask must keep every row that the statement may change; it may keep others.  Leaves all slices to the job where
    they hold more than `limits().inspected_rows` rows.  Raises LeftToSpark where more than `most` rows are found, or without `any_size` more bytes than may come to the driver.
    """
    if evaluator.physical_rows(slices) > limits().inspected_rows:
        return [], list(slices)
    matching: list[tuple[Slice, Positions]] = []
    rest: list[Slice] = []
    for piece in slices:
        positions = _matching(evaluator, piece, snapshot, mask_of, names)
        if positions is None:
            rest.append(piece)
        elif len(positions):
            matching.append((piece, positions))
            most -= len(positions)
        if most < 0:
            raise LeftToSpark
    found, unread = read_at(evaluator, matching, wanted, snapshot, any_size=any_size)
    return found, [*rest, *unread]


def read_at(
    evaluator: Evaluator, places: Sequence[tuple[Slice, Positions]], wanted: Sequence[str], snapshot: Snapshot, *, any_size: bool = False
) -> tuple[list[Found], list[Slice]]:
    """(the columns `wanted` of the rows at positions of slices, slices that Arrow cannot read).  No job.

    Raises LeftToSpark without `any_size` for more bytes than may come to the driver, where it can before they are read.
    """
    found: list[Found] = []
    unread: list[Slice] = []
    num_bytes = 0
    if not any_size:
        _check_size(sum(len(positions) * row_bytes(evaluator, [piece], snapshot) for piece, positions in places))
    for piece, positions in places:
        with suppress(pa.ArrowException):  # such as text of more than 2 GB in one column
            if (table := evaluator.rows.read_at(piece.file, positions, wanted, snapshot)) is not None:
                found.append((piece, table, positions))
                if not any_size:
                    _check_size(num_bytes := num_bytes + table.nbytes)
                continue
        unread.append(piece)
    return found, unread


def _matching(evaluator: Evaluator, piece: Slice, snapshot: Snapshot, mask_of: Callable[[pa.Table], Any], names: Sequence[str]) -> Positions | None:
    """The positions of a slice's rows for which `mask_of` gives True; None where Spark must read the file."""
    try:
        columns = evaluator.rows.read_columns(piece.file, names, snapshot)
        mask = None if columns is None else mask_of(columns)
    except pa.ArrowException:
        mask = None
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray):
        mask = np.asarray(pc.fill_null(mask, False).to_numpy(), dtype=np.bool_)
    positions = np.flatnonzero(mask).astype(np.int64)
    return positions[in_slice(piece, positions)]


def rows_that_meet(evaluator: Evaluator, table: pa.Table, relation: Relation, condition: JavaObject, session: JavaObject) -> npt.NDArray[np.bool_] | None:
    """For which rows of a table of some columns of `relation` a condition is true; None where it raises, or Spark must plan it and the rows are many.

    No job, but for a Python UDF.
    """
    bridge, names = evaluator.bridge, [f.name for f in relation.schema.fields]
    columns = [relation.attributes[names.index(name)] for name in table.column_names]
    with suppress(PySparkException, Py4JJavaError), bridge.interpreting(session):
        step = rows_at_once(table)
        parts = [table.slice(start, step) for start in range(0, table.num_rows, step)]
        return np.concatenate([np.zeros(0, np.bool_), *(_meeting(evaluator, part, bridge.seq(columns), condition) for part in parts)])
    if table.num_rows > limits().driver_rows:
        return None
    number = relation.attributes[names.index(POSITION)]
    some = Relation.of(bridge, [*columns, number], StructType([relation.schema[n] for n in (*table.column_names, POSITION)]))
    numbered = table.append_column(POSITION, pa.array(np.arange(table.num_rows, dtype=np.int64)))
    out = np.zeros(table.num_rows, dtype=np.bool_)
    try:
        plan = bridge.filter(condition, bridge.local(some.seq, numbered, some.schema_json, session))
        found = bridge.evaluate(bridge.project(bridge.seq([number]), plan), evaluator.spark, session)
    except (PySparkException, Py4JJavaError, InvalidInput):  # a value that no row of the statement may have: it raises where a row has it
        return None
    out[np.asarray(found.column(0).to_numpy(), dtype=np.int64)] = True
    return out


def _meeting(evaluator: Evaluator, rows: pa.Table, columns: JavaObject, condition: JavaObject) -> npt.NDArray[np.bool_]:
    """For which rows, whose columns are these attributes, a condition is true that the JVM can evaluate as it is.  Raises Spark's errors."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    bits = np.frombuffer(in_jvm(evaluator.spark).meeting(condition, columns, sink.getvalue().to_pybytes()), np.uint8)
    return np.unpackbits(bits, count=rows.num_rows, bitorder="little").view(np.bool_)


def evaluate(evaluator: Evaluator, rows: Addressed, relation: Relation, resolved: Resolved, session: JavaObject) -> Addressed:
    """The outputs of `resolved` for the rows that meet its condition.  The last two outputs must be the address.  No job."""
    plan = evaluator.bridge.local(relation.seq, rows.with_address_columns(), relation.schema_json, session)
    plan = resolved.over(evaluator.bridge, plan)
    return addressed(evaluator.bridge.evaluate(plan, evaluator.spark, session), dict(enumerate(rows.origin.paths)))


class Ways:
    """The ways of the statements of a transaction, in their order.  Those of its rebases are not recorded."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.lines: list[str] = []

    def whole_files(self, number: int) -> None:
        self.lines.append(f"{display.count(number, 'file')} deleted as a whole, without reading rows")

    def small_files(self, found: Sequence[Found]) -> None:
        if found:
            self.lines.append(f"{_rows(found)} of {display.count(len(found), 'file')} read on the driver (at most {limits().local_rows:,}: local_rows)")

    def candidates(self, found: Sequence[Found], by: str, files: int) -> None:
        """Files whose rows were chosen on the driver by the columns of a condition; of some of them no row was left."""
        if files:
            self.lines.append(f"{display.count(files, 'file')} searched on the driver by {by}: {_rows(found)} may be meant")

    def job(self, slices: Sequence[Slice], what: str = "") -> None:
        number, size = display.count(len(slices), "file"), display.size(sum(s.file.size_bytes for s in slices))
        self.lines.append(f"Spark job over {number}, {size}, {display.count(self._evaluator.physical_rows(slices), 'row')}{what}")

    def written_by_spark(self, what: str, why: str = "") -> None:
        self.lines.append(f"{what} written by Spark ({why or f'more than {limits().driver_rows:,}: driver_rows'})")


def _rows(found: Sequence[Found]) -> str:
    return display.count(sum(table.num_rows for _, table, _ in found), "row")
