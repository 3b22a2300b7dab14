"""Rows on the driver together with their addresses: the data file and the physical position that each row comes from.

Holds values only: runs no Spark job and reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowlock.boundary.provenance import Provenance
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.read.scan import PATH, POSITION
from rowlock.protocol.deletion_vector import bitmap_to_numpy

Found = tuple[Slice, pa.Table, npt.NDArray[np.int64]]
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
        """The rows with two more columns: PATH, which holds the file's index in `origin.paths` as text, and POSITION."""
        table = self.table.append_column(PATH, pc.cast(pa.array(self.origin.file), pa.string()))
        return table.append_column(POSITION, pa.array(self.origin.position))


def addressed_by_index(result: pa.Table, file_paths: tuple[str, ...]) -> Addressed:
    """Rows that Spark computed from `with_address_columns`, their address columns turned into provenance."""
    files = np.asarray(pc.cast(result.column(PATH), pa.int32()).to_numpy(zero_copy_only=False), dtype=np.int32)
    return Addressed(result.drop_columns([PATH, POSITION]), Provenance(file_paths, files, _positions(result)))


def addressed_by_hash(result: pa.Table, names: Mapping[int, str]) -> Addressed:
    """Rows of a scan, whose last two columns are the hash of the file and POSITION, with provenance by the paths that `names` has for the hashes."""
    column, position = result.column(result.num_columns - 2), result.column(result.num_columns - 1)
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded if isinstance(encoded, pa.DictionaryArray) else pa.concat_arrays(encoded.chunks)
    files = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int32)
    origin = Provenance(tuple(names[number] for number in encoded.dictionary.to_pylist()), files, np.asarray(position.to_numpy(), dtype=np.int64))
    return Addressed(result.select(list(range(result.num_columns - 2))), origin)


def rows_in_slices(rows: Addressed, slices: Sequence[Slice]) -> Addressed:
    """The rows that lie in `slices`, of which every file of `rows` has one: without dead rows and rows that are not asked for."""
    pieces = {s.path: s for s in slices}
    mask = np.ones(rows.num_rows, dtype=np.bool_)
    for index, path in enumerate(rows.origin.paths):
        piece = pieces[path]
        if piece.only is None and not piece.without:
            continue
        at = np.flatnonzero(rows.origin.file == index)
        mask[at] = in_slice(piece, rows.origin.position[at])
    return rows.filter(mask)


def in_slice(piece: Slice, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each physical position whether its row lies in the slice."""
    if piece.only is None and not piece.without:
        return np.ones(len(positions), dtype=np.bool_)
    marked = np.isin(positions, bitmap_to_numpy(piece.only if piece.only is not None else piece.without or BitMap64()))
    return marked if piece.only is not None else ~marked


def _positions(table: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(table.column(POSITION).to_numpy(), dtype=np.int64)
