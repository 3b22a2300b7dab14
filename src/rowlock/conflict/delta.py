"""The delta between two snapshots: the rows that are gone and the rows that are born.

Only states are compared, never the operations in between, so that a winner counts by the rows it changed, whatever
its operation is called; a RESTORE that shrinks a deletion vector or a compaction that moves rows needs no special
case (I3, I5).  Pure: files and their deletion vectors are passed as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import positions_except

VectorOf = Callable[[AddFile], BitMap64]
"""Returns the positions that a file's deletion vector marks as deleted; empty if the file has none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows of one data file: those at the positions `only`, or (if that is None) all except `without`.

    Positions are physical row numbers from 0, in file order.
    """

    file: AddFile
    only: BitMap64 | None = None
    without: BitMap64 | None = None

    @property
    def path(self) -> str:
        """The path of the data file."""
        return self.file.path

    @property
    def num_rows(self) -> int | None:
        """The number of rows in the slice; None if the file's statistics do not say."""
        if self.only is not None:
            return len(self.only)
        physical = self.file.num_records
        return None if physical is None else physical - len(self.without or ())

    def positions(self, count: Callable[[AddFile], int]) -> BitMap64:
        """The positions of the rows of the slice; `count` counts the rows of a file whose statistics lack their number."""
        return self.only if self.only is not None else positions_except(self.file.physical_rows(count), self.without)

    def covers(self, positions: BitMap64) -> BitMap64:
        """The positions that are in this slice."""
        if self.only is not None:
            return positions & self.only
        return positions - self.without if self.without else positions


def minus(piece: Slice, positions: BitMap64 | None) -> Slice:
    """The slice without the rows at these positions."""
    if not positions:
        return piece
    return Slice(piece.file, only=piece.only - positions) if piece.only is not None else Slice(piece.file, without=(piece.without or BitMap64()) | positions)


@dataclass(frozen=True, slots=True)
class Delta:
    """`gone`: rows that are live in the old snapshot but not in the new one; `born`: the reverse."""

    gone: tuple[Slice, ...]
    born: tuple[Slice, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is gone and nothing is born."""
        return not self.gone and not self.born

    def gone_by_path(self) -> dict[str, Slice]:
        """The gone rows by the path of their file."""
        return {s.path: s for s in self.gone}


def live_slice(file: AddFile, vector_of: VectorOf) -> Slice:
    """The slice of all live rows of a file."""
    return Slice(file, without=vector_of(file) if file.deletion_vector else None)


def delta_of(paths: Iterable[str], before: Mapping[str, Slice], after: Mapping[str, Slice]) -> Delta:
    """The delta between two states, each given as slices of the live rows of its files by path (slices without `only`)."""
    gone: list[Slice] = []
    born: list[Slice] = []
    for path in sorted({*paths, *before}):
        old, new = before.get(path), after.get(path)
        if old is None or new is None:
            gone += [old] if old is not None else []
            born += [new] if new is not None else []
            continue
        dead_before, dead_after = old.without or BitMap64(), new.without or BitMap64()
        if died := dead_after - dead_before:
            gone.append(Slice(old.file, only=died))
        if revived := dead_before - dead_after:
            born.append(Slice(new.file, only=revived))
    return Delta(tuple(gone), tuple(born))


def delta_between(paths: Iterable[str], before: Mapping[str, AddFile], after: Mapping[str, AddFile], vector_of: VectorOf) -> Delta:
    """The delta between two states, given as live files by path; `paths` must contain every path that a commit in between added or removed."""
    differing = [p for p in sorted(set(paths)) if (old := before.get(p)) is None or (new := after.get(p)) is None or old.deletion_vector != new.deletion_vector]
    old_slices, new_slices = ({p: live_slice(files[p], vector_of) for p in differing if p in files} for files in (before, after))
    return delta_of(differing, old_slices, new_slices)
