"""The live files of a version: an immutable columnar set that is cheap to update from commit to commit.

Consists of a few large frames, each with a mask of live rows, and a small dict of recently changed files (the
overlay).  At most one file per path is live, and a remove deletes only the (path, vector id) that it names (I4, I5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.limits import limits
from rowlock.log import frames, pruning
from rowlock.log.pruning import QuickBounds
from rowlock.protocol import arrays
from rowlock.protocol.actions import AddFile, FileKey
from rowlock.protocol.predicates import Predicate
from rowlock.protocol.schema import StructType

_Mask = npt.NDArray[np.bool_]


_SCANS = 20
"""The lookups of paths by scans of a frame before an index is built, which costs as much as these scans."""


class _Base:
    """A frame of files with distinct paths, and an index by path that is built after some lookups.  Shared between versions."""

    __slots__ = ("_hashes", "_order", "_scans", "bounds", "frame")

    def __init__(self, frame: pa.RecordBatch) -> None:
        self.frame = frame
        self.bounds = QuickBounds(frame)
        self._scans = 0
        self._hashes: npt.NDArray[np.int64] | None = None
        self._order: npt.NDArray[np.intp] | None = None

    def rows_of(self, paths: Sequence[str]) -> npt.NDArray[np.intp]:
        """The row numbers of those of the paths that are in the frame, in no particular order."""
        wanted, path = arrays.of_values(paths, pa.string()), self.frame.column("path")
        if self._order is None and self._scans < _SCANS:
            self._scans += 1
            return frames.rows_at(pc.is_in(path, value_set=wanted))
        if self._hashes is None or self._order is None:
            hashes = _hashes(path.to_pylist())
            order = np.argsort(hashes)
            self._order, self._hashes = order, hashes[order]
        keys = _hashes(paths)
        left, right = np.searchsorted(self._hashes, keys, "left"), np.searchsorted(self._hashes, keys, "right")
        candidates = [int(self._order[at]) for i in np.flatnonzero(right > left) for at in range(left[i], right[i])]
        rows = np.unique(np.array(candidates, dtype=np.intp))
        matching: npt.NDArray[np.intp] = rows[frames.rows_at(pc.is_in(path.take(arrays.of_numpy(rows)), value_set=wanted))]
        return matching


def _hashes(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


class LiveFiles:
    """The live files of one version.  Created by `of_frames` or `of_adds`; `apply` returns those of the next version."""

    __slots__ = ("_bases", "_count", "_masks", "_overlay", "_size_bytes")

    def __init__(self, bases: tuple[_Base, ...], masks: tuple[_Mask, ...], overlay: Mapping[str, AddFile], count: int, size_bytes: int) -> None:
        self._bases, self._masks, self._overlay = bases, masks, overlay
        self._count, self._size_bytes = count, size_bytes

    @classmethod
    def of_frames(cls, parts: Iterable[pa.RecordBatch]) -> LiveFiles:
        """The live files in these frames, whose paths must be distinct across all of them; few of them are held as values."""
        parts = list(parts)
        if sum(part.num_rows for part in parts) <= limits().changed_files:
            return cls.of_adds(add for part in parts for add in frames.to_adds(part))
        bases = tuple(_Base(part) for part in parts if part.num_rows)
        count, size = sum(b.frame.num_rows for b in bases), sum(pc.sum(b.frame.column("size")).as_py() or 0 for b in bases)
        return cls(bases, tuple(np.ones(b.frame.num_rows, dtype=np.bool_) for b in bases), {}, count, size)

    @classmethod
    def of_adds(cls, adds: Iterable[AddFile] = ()) -> LiveFiles:
        """The live files after these add actions."""
        return cls((), (), {}, 0, 0).apply((), adds)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"LiveFiles({self._count} files, {self._size_bytes} bytes)"

    @property
    def total_size_bytes(self) -> int:
        """The total size of all live files, in bytes."""
        return self._size_bytes

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and bool(self.get((path,)))

    def get(self, paths: Iterable[str]) -> dict[str, AddFile]:
        """The live files among these paths, by path."""
        wanted = list(paths)
        live = {path: self._overlay[path] for path in wanted if path in self._overlay}
        if missing := [path for path in wanted if path not in live]:
            for base, mask in zip(self._bases, self._masks, strict=True):
                rows = base.rows_of(missing)
                if len(rows := rows[mask[rows]]):
                    live |= {add.path: add for add in frames.to_adds(base.frame.take(arrays.of_numpy(rows)))}
        return live

    def adds(self) -> Iterator[AddFile]:
        """Every live file as a value, created lazily, in no particular order."""
        for frame in self.live_frames():
            yield from frames.to_adds(frame)
        yield from self._overlay.values()

    def live_frames(self) -> Iterator[pa.RecordBatch]:
        """The live files in frames; the others are in `recent`."""
        for base, mask in zip(self._bases, self._masks, strict=True):
            yield base.frame if mask.all() else base.frame.filter(arrays.of_numpy(mask))

    @property
    def recent(self) -> Mapping[str, AddFile]:
        """The live files of the overlay, by path."""
        return self._overlay

    def apply(self, removes: Iterable[FileKey], adds: Iterable[AddFile], *, superseded: Iterable[str] = ()) -> LiveFiles:
        """The live files after a commit: removes, each of exactly the logical file it names, then adds, which replace the file at their path.

        `superseded`: paths whose file is removed whatever its deletion vector is.
        """
        removed, added, replaced = set(removes), {add.path: add for add in adds}, set(superseded)
        live = self.get({path for path, _ in removed} | added.keys() | replaced)
        gone = {path for path, add in live.items() if add.key in removed or path in added or path in replaced}
        count, size = self._count - len(gone) + len(added), self._size_bytes
        size += sum(add.size_bytes for add in added.values()) - sum(live[path].size_bytes for path in gone)
        overlay = dict(self._overlay)
        hidden = [path for path in gone if overlay.pop(path, None) is None]
        masks = self._masks if not hidden else tuple(_without(b, m, hidden) for b, m in zip(self._bases, self._masks, strict=True))
        overlay.update(added)
        changed = LiveFiles(self._bases, masks, overlay, count, size)
        return changed._consolidated() if len(overlay) > limits().changed_files else changed

    def _consolidated(self) -> LiveFiles:
        """The same files with the overlay merged into a frame, along with frames that are small or mostly removed."""
        fresh = [frames.from_adds(chunk) for chunk in _chunks(self._overlay.values())]
        bases: list[_Base] = []
        masks: list[_Mask] = []
        for base, mask in zip(self._bases, self._masks, strict=True):
            alive = int(mask.sum())
            if alive < 4 * len(self._overlay) or alive * 2 < len(mask):
                fresh.append(base.frame.filter(arrays.of_numpy(mask)))
            else:
                bases.append(base)
                masks.append(mask)
        merged = [_Base(part) for part in frames.merged(fresh)]
        alive_masks = (np.ones(base.frame.num_rows, dtype=np.bool_) for base in merged)
        return LiveFiles((*bases, *merged), (*masks, *alive_masks), {}, self._count, self._size_bytes)

    def prune(self, predicate: Predicate | None, schema: StructType, partition_columns: Sequence[str]) -> list[AddFile]:
        """The live files that may contain a row satisfying the predicate; never too few."""
        if predicate is None:
            return list(self.adds())
        pruner = pruning.FilePruner(predicate, schema, partition_columns)
        out: list[AddFile] = []
        for base, mask in zip(self._bases, self._masks, strict=True):
            left = base.frame.filter(arrays.of_numpy(mask & pruner.match_bounds(base.bounds, base.frame.num_rows)))
            out += pruner.matching(list(frames.to_adds(left.filter(arrays.of_numpy(pruner.match_partitions(left))))))
        return out + pruner.matching(list(self._overlay.values()))


def _without(base: _Base, mask: _Mask, paths: Sequence[str]) -> _Mask:
    """The mask of live rows without those of these paths."""
    rows = base.rows_of(paths)
    if not len(rows):
        return mask
    changed = mask.copy()
    changed[rows] = False
    return changed


def _chunks(adds: Iterable[AddFile]) -> Iterator[list[AddFile]]:
    left = iter(adds)
    while chunk := list(islice(left, limits().snapshot_chunk_files)):
        yield chunk


def fold(changes: Iterable[tuple[Iterable[FileKey], Iterable[AddFile]]], files: LiveFiles) -> LiveFiles:
    """The live files after several commits, given as (removes, adds) in order; their net effect is applied in one pass over the frames."""
    added: dict[str, AddFile] = {}
    removed: set[FileKey] = set()
    superseded: set[str] = set()
    for removes, adds in changes:
        for key in removes:
            if (recent := added.get(key[0])) is not None and recent.key == key:
                del added[key[0]]
                superseded.add(key[0])
            removed.add(key)
        added.update((add.path, add) for add in adds)
    return files.apply(removed, added.values(), superseded=superseded)
