"""Where staged rows came from: as arrays for few rows, and as what their files hold (`StoredOrigin`) for many.

The origin of many rows never lies on the driver as a whole.  A summary by file does (which positions, as a bitmap); the
rows' own addresses are read from the staged files, in portions, by a rebase that meets one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy

Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of each row of a block, as an address (path, position).

    Derived row i: it replaces the row at physical position `position[i]` of the data file `paths[file[i]]`.
    Inserted row i: `paths[file[i]]` is the `fresh_path` of its MERGE, `position[i]` the number of its source row.
    """

    paths: tuple[str, ...]
    file: npt.NDArray[np.int32]
    position: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        assert len(self.file) == len(self.position)

    @property
    def num_rows(self) -> int:
        return len(self.file)

    def take(self, rows: Mask | npt.NDArray[np.int64]) -> Provenance:
        """The origins of a subset of the rows, chosen by a boolean mask or by row numbers."""
        return Provenance(self.paths, self.file[rows], self.position[rows])

    def readdressed(self, rows: Mask | npt.NDArray[np.int64], to: Provenance) -> Provenance:
        """The origins with those of some rows replaced, by one of `to` for each."""
        names = {path: n for n, path in enumerate(self.paths)}
        codes = np.array([names.setdefault(path, len(names)) for path in to.paths], np.int32)
        file, position = self.file.copy(), self.position.copy()
        file[rows], position[rows] = codes[to.file], to.position
        return Provenance(tuple(names), file, position)

    def by_path(self) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        """Yields each path that occurs, with the numbers of the rows that came from it, in ascending order."""
        if not len(self.file):
            return
        if len(self.paths) == 1:
            yield self.paths[0], np.arange(len(self.file), dtype=np.int64)
            return
        order = np.argsort(self.file, kind="stable")
        ends = np.cumsum(np.bincount(self.file, minlength=len(self.paths)))
        for path, start, end in zip(self.paths, np.r_[0, ends[:-1]], ends, strict=True):
            if end > start:
                yield path, order[start:end]

    def bitmaps(self) -> Mapping[str, BitMap64]:
        """The positions as one bitmap for each path."""
        return {path: bitmap_of(self.position[rows]) for path, rows in self.by_path()}

    @property
    def positions(self) -> Mapping[str, BitMap64]:
        """What is known of `bitmaps` without computing it: here, nothing."""
        return {}

    def in_order(self, taken: Mapping[str, BitMap64]) -> dict[str, tuple[int, int]]:
        """By path, (number of the first row, rows) where the rows of a path are those of `taken`, in one run and in order."""
        return {
            path: (int(at[0]), len(at))
            for path, at in self.by_path()
            if at[-1] - at[0] + 1 == len(at) and path in taken and np.array_equal(self.position[at], bitmap_to_numpy(taken[path]))
        }

    def parts(self) -> Iterator[Provenance]:
        """The origin in portions, in the order of the rows: here, all of it."""
        yield self

    def loaded(self) -> Provenance:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class StoredOrigin:
    """The origin of rows in staged files, which hold it.  Has what `Provenance` has for all who do not look at single rows.

    paths      the data files, or the `fresh_path`, that the rows came from
    num_rows   how many rows
    read       reads the origins of all rows in the files, in portions, in their order
    positions  the bitmaps of all rows in the files, by path; for rows of a data file
    runs       by path, (number of the first row, rows) where all rows of that path lie in one run, by ascending position
    rows       the mask of the rows in the files that are meant; None: all
    """

    paths: tuple[str, ...]
    num_rows: int
    read: Callable[[], Iterator[Provenance]]
    positions: Mapping[str, BitMap64] = field(default_factory=dict)
    runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rows: Mask | None = None

    def take(self, rows: Mask) -> StoredOrigin:
        """The origins of a subset of the rows, chosen by a boolean mask.  `positions` may then hold more than these rows' own."""
        left = chosen(self.rows, rows)
        return replace(self, num_rows=int(left.sum()), rows=left, runs={})

    def parts(self) -> Iterator[Provenance]:
        """The origins in portions, in the order of the rows."""
        at = 0
        for part in self.read():
            yield part if self.rows is None else part.take(self.rows[at : at + part.num_rows])
            at += part.num_rows

    def bitmaps(self) -> Mapping[str, BitMap64]:
        """The positions as one bitmap for each path."""
        if self.rows is None and self.positions:
            return self.positions
        return functools.reduce(union_by_path, (part.bitmaps() for part in self.parts()), {})

    def in_order(self, taken: Mapping[str, BitMap64]) -> dict[str, tuple[int, int]]:
        """By path, (number of the first row, rows) where the rows of a path are those of `taken`, in one run and in order."""
        return {path: run for path, run in self.runs.items() if path in taken and self.positions[path] == taken[path]}

    def loaded(self) -> Provenance:
        """All origins on the driver, 12 bytes a row."""
        index = {path: n for n, path in enumerate(self.paths)}
        files, positions = [], []
        for part in self.parts():
            codes = np.array([index.setdefault(p, len(index)) for p in part.paths], np.int32)
            files.append(codes[part.file] if part.num_rows else part.file)
            positions.append(part.position)
        return Provenance(tuple(index), np.concatenate([np.empty(0, np.int32), *files]), np.concatenate([np.empty(0, np.int64), *positions]))


Origin = Provenance | StoredOrigin


@dataclass(frozen=True, slots=True, eq=False)
class SourceNumbers:
    """Numbers of source rows, one for each target row that matched: read from staged files in portions that fit those of the rows' `StoredOrigin`, or held."""

    num_rows: int
    read: Callable[[], Iterator[Numbers]]
    rows: Mask | None = None

    def take(self, rows: Mask) -> SourceNumbers:
        """The numbers of a subset of the rows."""
        kept = chosen(self.rows, rows)
        return replace(self, num_rows=int(kept.sum()), rows=kept)

    def parts(self) -> Iterator[Numbers]:
        at = 0
        for part in self.read():
            yield part if self.rows is None else part[self.rows[at : at + len(part)]]
            at += len(part)


def chosen(before: Mask | None, rows: Mask) -> Mask:
    """The mask, over all rows, of those that `rows` chooses among the rows of `before`."""
    if before is None:
        return rows
    out = before.copy()
    out[before] = rows
    return out


def numbers_of(held: npt.ArrayLike) -> SourceNumbers:
    """Numbers of source rows that are held on the driver."""
    numbers = np.asarray(held, dtype=np.int64)
    return SourceNumbers(len(numbers), lambda: iter((numbers,)))


@dataclass(frozen=True, slots=True, eq=False)
class StoredCounts:
    """How many matches each source row of a MERGE has, where the matches are many: counted when it is asked for."""

    size: int
    matches: tuple[SourceNumbers, ...]

    def __len__(self) -> int:
        return self.size


def counted(counts: Counts | StoredCounts) -> Counts:
    """The matches of each source row as an array; the caller may change it where they were stored."""
    if not isinstance(counts, StoredCounts):
        return counts
    out = np.zeros(counts.size, np.int64)
    for numbers in counts.matches:
        count(numbers, out)
    return out


def count(numbers: SourceNumbers, into: Counts) -> None:
    """Adds 1 to the count of each source row for each time that its number occurs."""
    for part in numbers.parts():
        np.add.at(into, part, 1)


def union_by_path(before: Mapping[str, BitMap64], more: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
    """The union of two sets of row positions, path by path."""
    out = dict(before)
    for path, positions in more.items():
        out[path] = out[path] | positions if path in out else positions
    return out
