"""Moves the live rows of data files into new files: OPTIMIZE and REORG where Arrow reads the files as Spark would.

In their present order a portion at a time (`move_rows`): a row keeps its place among the live rows, so where it came from is a sum of lengths
(`moved_origin`).  Sorted, all at once (`sort_rows`).  No file need hold where its rows came from (I5).  Rows keep their ids and commit versions where the
table tracks them (I6).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from rowlock.boundary.provenance import Provenance, StoredOrigin
from rowlock.boundary.row_identity import Numbers, columns_of, identities_in
from rowlock.conflict.delta import Slice
from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.curves import Order, arranged
from rowlock.parquet.files import open_parquet
from rowlock.parquet.physical import Doubtful, doubting, rows_schema
from rowlock.parquet.reading import DataFile
from rowlock.parquet.rows import held_ids, with_identities
from rowlock.parquet.variants import has_variant
from rowlock.parquet.writing import stored_rows, write_portions
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_to_numpy, living_mask
from rowlock.storage.store import ObjectStore, discard
from rowlock.threads import side_by_side

_GROUP_ROWS, _GROUP_BYTES = 1 << 20, 128 << 20
"""Rows in a row group of a new file at most, and about their size in memory."""
_PORTION_ROWS, _PORTION_BYTES = 1 << 17, 16 << 20
"""Rows that are read at a time at most, and about their size in the old file before it is compressed."""
Living = Mapping[str, BitMap64]
"""By path, the positions of the live rows of the files that are rewritten."""


def moved_origin(inputs: Sequence[Slice], living: Living) -> StoredOrigin:
    """The addresses of all live rows of the inputs, one after the other, computed when they are asked for."""
    ends = np.cumsum([0, *(len(living[s.path]) for s in inputs)])

    def read() -> Iterator[Provenance]:
        for piece in inputs:
            positions = bitmap_to_numpy(living[piece.path])
            yield Provenance((piece.path,), np.zeros(len(positions), np.int32), positions)

    filled = [(s.path, int(start), int(end)) for s, (start, end) in zip(inputs, pairwise(ends), strict=True) if start < end]
    runs = {path: (start, end - start) for path, start, end in filled}
    return StoredOrigin(tuple(runs), int(ends[-1]), read, {path: living[path] for path in runs}, runs)


def move_rows(
    store: ObjectStore, inputs: Sequence[Slice], living: Living, snapshot: Snapshot, *, max_records: int | None = None, case_sensitive: bool = False
) -> list[AddFile]:
    """Writes the live rows of the inputs, which lie in one partition, into new files of at most `max_records` rows; no file for no rows.

    Raises Doubtful where Spark must read a file, CorruptLog where a file holds other rows than the log says; no new file is left then.
    """
    mover = _Mover(store, inputs, living, snapshot, case_sensitive)
    num_rows = sum(len(living[s.path]) for s in inputs)
    most = max_records or max(1, num_rows)
    files: list[AddFile] = []
    try:
        for start in range(0, num_rows, most):
            files.append(write_portions(store, functools.partial(mover.groups, start, start + most), mover.values, snapshot))
    except BaseException:
        discard(store, (f.path for f in files))
        raise
    return files


def sort_rows(
    store: ObjectStore,
    inputs: Sequence[Slice],
    living: Living,
    snapshot: Snapshot,
    order: Order,
    num_files: int,
    *,
    max_records: int | None = None,
    case_sensitive: bool = False,
) -> tuple[list[AddFile], Provenance]:
    """Writes the live rows of the inputs, which lie in one partition, sorted into about `num_files` new files; returns these, and where their rows came from.

    Raises as `move_rows`, and Doubtful where the rows take more memory than `limits().sorted_bytes`.
    """
    mover = _Mover(store, inputs, living, snapshot, case_sensitive)
    table = mover.all_rows()
    rows, edges = arranged(table, order, num_files)
    pieces = [(at, min(end, at + (max_records or end))) for start, end in pairwise(edges) for at in range(start, end, max_records or end - start)]
    files: dict[int, AddFile] = {}

    def write(start: int, end: int) -> None:
        portions = functools.partial(mover.groups_of, table, rows.slice(start, end - start))
        files[start] = write_portions(store, portions, mover.values, snapshot)

    try:
        side_by_side(lambda piece: write(*piece), pieces, limits().file_threads)
    except BaseException:
        discard(store, (f.path for f in files.values()))
        raise
    return [files[start] for start, _ in pieces], moved_origin(inputs, living).loaded().take(rows.to_numpy())


class _Mover:
    def __init__(self, store: ObjectStore, inputs: Sequence[Slice], living: Living, snapshot: Snapshot, case_sensitive: bool) -> None:
        self._store, self._inputs, self._living, self._snapshot, self._case_sensitive = store, inputs, living, snapshot, case_sensitive
        self._columns = columns_of(snapshot)
        self.values = dict(inputs[0].file.partition_values) if inputs else {}  # one partition, which others may spell otherwise
        self._wanted = pa.schema([f for f in rows_schema(snapshot) if f.name not in snapshot.partition_columns])
        if any(has_variant(f.type) for f in self._wanted):
            raise Doubtful("variants are shredded as the session's settings say", "variants")
        if all(pa.types.is_null(f.type) for f in self._wanted):
            raise Doubtful("the table has no column that files hold", "tables without stored columns")

    def groups(self, start: int, end: int) -> Iterator[pa.Table]:
        """The live rows from number `start` to `end` as data files hold them, in portions for row groups."""
        held: list[pa.Table] = []
        num_rows = size_bytes = 0
        for logical in self._live_rows(start, end):
            rows = stored_rows(logical, self._snapshot)[0]
            held.append(rows)
            num_rows, size_bytes = num_rows + rows.num_rows, size_bytes + rows.nbytes
            if num_rows >= _GROUP_ROWS or size_bytes >= _GROUP_BYTES:
                held = [pa.concat_tables(held)]
                yield held[0].slice(0, _GROUP_ROWS)
                held = [held[0].slice(_GROUP_ROWS)]
                num_rows, size_bytes = held[0].num_rows, 0
        if num_rows:
            yield pa.concat_tables(held)

    def all_rows(self) -> pa.Table:
        """All live rows, under the table's columns, with their ids.  Raises Doubtful where they take more memory than a sort on the driver may."""
        held, most = [], limits().sorted_bytes
        for rows in self._live_rows(0, sum(len(self._living[s.path]) for s in self._inputs)):
            held.append(rows)
            if (most := most - rows.nbytes) < 0:
                raise Doubtful("the rows take more memory than a sort on the driver may", "many rows")
        return _in_one_piece(held) if held else self._wanted.empty_table()

    def groups_of(self, table: pa.Table, rows: pa.Array) -> Iterator[pa.Table]:
        """These of the rows as data files hold them, in portions for row groups."""
        size = max(1, min(_GROUP_ROWS, _GROUP_BYTES * table.num_rows // max(1, table.nbytes)))
        for at in range(0, len(rows), size):
            yield stored_rows(table.take(rows.slice(at, size)), self._snapshot)[0]

    def _live_rows(self, start: int, end: int) -> Iterator[pa.Table]:
        """The live rows from number `start` to `end`, under the table's columns, with their ids."""
        at = 0
        for piece in self._inputs:
            after = at + len(self._living[piece.path])
            if at < end and start < after:
                with doubting():
                    yield from self._of_file(piece, max(0, start - at), end - at)
            at = after

    def _of_file(self, piece: Slice, first: int, end: int) -> Iterator[pa.Table]:
        """Those of a file's live rows whose numbers among them are `first` to `end`."""
        file, root = piece.file, self._store.root
        with open_parquet(self._store, file.path, file.size_bytes) as source:
            metadata = source.metadata
            mask = living_mask(metadata.num_rows, piece.without or BitMap64(), file.path, root)
            if (found := int(mask.sum())) != (expected := len(self._living[file.path])):
                text = f"{file.path} holds other rows than the log says: {found:,}, not {expected:,}. See rowlock check; nothing was committed"
                raise CorruptLog(text, table=root)
            opened = DataFile(source, file, self._snapshot, self._wanted, case_sensitive=self._case_sensitive)
            also = [n for n in (self._columns.names if self._columns else ()) if n in source.schema_arrow.names]
            at = before = 0
            for group in range(metadata.num_row_groups):
                size = metadata.row_group(group).num_rows
                alive = int(mask[at : at + size].sum())
                if before < end and first < before + alive:
                    at_once = max(1, min(_PORTION_ROWS, size * _PORTION_BYTES // max(1, metadata.row_group(group).total_byte_size)))
                    yield from self._living_in(opened.portions(group, at_once, also), mask, at, first - before, end - before, file)
                at, before = at + size, before + alive

    def _living_in(
        self, portions: Iterable[tuple[pa.Table, pa.Table]], mask: npt.NDArray[np.bool_], at: int, first: int, end: int, file: AddFile
    ) -> Iterator[pa.Table]:
        """Those live rows of portions that begin at position `at` of the file whose numbers among them are `first` to `end`."""
        before = 0
        for rows, ids in portions:
            alive = np.flatnonzero(mask[at : at + rows.num_rows])
            taken = alive[max(0, first - before) : max(0, end - before)]
            if len(taken):
                yield self._with_ids(rows, ids, file, taken + at, taken)
            at, before = at + rows.num_rows, before + len(alive)

    def _with_ids(self, rows: pa.Table, ids: pa.Table, file: AddFile, positions: Numbers, taken: Numbers) -> pa.Table:
        """Those of the rows that are `taken`, from these positions of the file, with their ids; `ids` are the rows' own by the file, if it has any."""
        if len(taken) < rows.num_rows:
            rows, ids = rows.take(pa.array(taken)), ids.take(pa.array(taken))
        if (columns := self._columns) is None:
            return rows
        return with_identities(rows, identities_in(file, positions, lambda _, at: held_ids(ids, columns, len(at))), columns)


def _in_one_piece(parts: list[pa.Table]) -> pa.Table:
    """The rows of the parts, which are taken out of the list, column by column in one piece: at most one column is in memory twice."""
    left, columns = pa.concat_tables(parts), {}
    parts.clear()
    for name in left.column_names:
        columns[name] = left.column(0).combine_chunks()
        left = left.remove_column(0)
    return pa.table(columns)
