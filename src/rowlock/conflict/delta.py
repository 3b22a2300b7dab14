"""The net change between two snapshots, row by row: what is gone and what is born.

Pure: files and their deletion vectors come in as values.  Only states are compared, never the
operations that led there, so a winner is judged by its rows and not by its name, and a RESTORE that
shrinks a vector or a compaction that moves rows needs no case of its own (I3, I5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from rowlock.protocol.actions import AddFile

VectorOf = Callable[[AddFile], BitMap64]
"""Gives the positions that a file's deletion vector marks as dead; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of one data file: those at the positions `only`, or (where that is None) all save `without`.

    Positions are physical row numbers, from 0, in the order of the file.
    """

    file: AddFile
    only: BitMap64 | None = None
    without: BitMap64 | None = None

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def num_rows(self) -> int | None:
        """How many rows are meant; None where the file's statistics do not say."""
        if self.only is not None:
            return len(self.only)
        physical = self.file.num_records
        return None if physical is None else physical - len(self.without or ())

    def covers(self, positions: BitMap64) -> BitMap64:
        """Those of `positions` that lie in this slice."""
        if self.only is not None:
            return positions & self.only
        return positions - self.without if self.without else positions


def minus(piece: Slice, positions: BitMap64 | None) -> Slice:
    """A slice without some of its rows."""
    if not positions:
        return piece
    return Slice(piece.file, only=piece.only - positions) if piece.only is not None else Slice(piece.file, without=(piece.without or BitMap64()) | positions)


@dataclass(frozen=True, slots=True)
class Delta:
    """`gone`: rows that lived at the old snapshot and do not live at the new one; `born`: the reverse."""

    gone: tuple[Slice, ...]
    born: tuple[Slice, ...]

    @property
    def is_empty(self) -> bool:
        return not self.gone and not self.born

    def gone_by_path(self) -> dict[str, Slice]:
        return {s.path: s for s in self.gone}


def whole(file: AddFile, vector_of: VectorOf) -> Slice:
    """All live rows of a file."""
    return Slice(file, without=vector_of(file) if file.deletion_vector else None)


def delta_of(paths: Iterable[str], before: Mapping[str, Slice], after: Mapping[str, Slice]) -> Delta:
    """The delta between two states, each given as the live rows of its files (slices without `only`)."""
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
    """The same between files; `paths` must hold every path that a commit in between added or removed."""
    differing = [p for p in set(paths) if (old := before.get(p)) is None or (new := after.get(p)) is None or old.deletion_vector != new.deletion_vector]
    old_slices, new_slices = ({p: whole(files[p], vector_of) for p in differing if p in files} for files in (before, after))
    return delta_of(differing, old_slices, new_slices)
