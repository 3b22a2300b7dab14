"""Choosing what a compaction rewrites: bins of small files, and files with many dead rows."""

from __future__ import annotations

from collections.abc import Iterable

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile

TARGET_BYTES = 1024 * 1024 * 1024
DEAD_SHARE = 0.05


def choose_bins(files: Iterable[AddFile], snapshot: Snapshot, target_bytes: int | None = None) -> tuple[tuple[str, ...], ...]:
    """Groups of paths, each to become one file; a group lies within one partition.

    A file is taken where it is smaller than the target or more than DEAD_SHARE of its rows are dead.
    One file alone is rewritten only for its dead rows.
    """
    target = target_bytes or TARGET_BYTES
    by_partition: dict[tuple[tuple[str, str | None], ...], list[AddFile]] = {}
    for file in files:
        if file.size_bytes < target or _dead_share(file) > DEAD_SHARE:
            by_partition.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    bins: list[tuple[str, ...]] = []
    for group in by_partition.values():
        for chosen in _packed(group, target):
            if len(chosen) > 1 or chosen[0].deletion_vector is not None:
                bins.append(tuple(f.path for f in chosen))
    return tuple(bins)


def _dead_share(file: AddFile) -> float:
    rows = file.num_records
    return 0.0 if file.deletion_vector is None or not rows else file.deletion_vector.cardinality / rows


def _packed(files: list[AddFile], target: int) -> list[list[AddFile]]:
    """First fit, large files first."""
    bins: list[tuple[int, list[AddFile]]] = []
    for file in sorted(files, key=lambda f: (-f.size_bytes, f.path)):
        for n, (size, chosen) in enumerate(bins):
            if size + file.size_bytes <= target:
                chosen.append(file)
                bins[n] = (size + file.size_bytes, chosen)
                break
        else:
            bins.append((file.size_bytes, [file]))
    return [chosen for _, chosen in bins]
