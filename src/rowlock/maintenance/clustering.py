"""Chooses the files that OPTIMIZE clusters: those that are not clustered yet, together with earlier runs less than twice their size.

A run is the output of one OPTIMIZE.  New files are sorted by themselves, so that a small append does not rewrite the
table, and runs of similar size are merged: each remaining run is at least twice as large as the next, so a query reads
about log2(size of the table / size of an append) runs, and with equal appends a row is rewritten that often over the years.
(delta-spark merges all, up to cubes of 100 GiB.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock.maintenance.optimize import DEAD_SHARE, Bins, dead_share
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import cube_of, run_of, state_of_file
from rowlock.protocol.schema import ColumnPath

CUBE_BYTES = 100 << 30
"""A cube of this size is closed: delta-spark (`optimize.clustering.mergeStrategy.minCubeSize.threshold`) merges nothing more with it, nor does Rowlock."""


def clustering_bins(files: Iterable[AddFile], stored: Sequence[ColumnPath], logical: Sequence[ColumnPath], *, full: bool = False) -> Bins:
    """One group: the files that OPTIMIZE is to sort together; no group if all files are clustered.  `full`: all files.

    `stored` are the clustering columns by physical name, `logical` by logical name.  Files clustered by other columns are left as they are.
    """
    all_files = list(files)
    if full:
        return (tuple(sorted(f.path for f in all_files)),) if all_files else ()
    states = {f.path: state_of_file(f, stored, logical) for f in all_files}
    chosen = [f for f in all_files if states[f.path] == "unclustered" or dead_share(f) > DEAD_SHARE]
    if not chosen:
        return ()
    taken = {f.path for f in chosen}
    closed = {cube for cube, size_bytes in _cubes(all_files, logical).items() if size_bytes >= CUBE_BYTES}
    runs: dict[str, list[AddFile]] = {}
    for file in all_files:
        if file.path not in taken and states[file.path] == "clustered" and cube_of(file, logical) not in closed:
            runs.setdefault(run_of(file), []).append(file)
    for run in sorted(runs.values(), key=_size_bytes):
        if _size_bytes(run) >= 2 * _size_bytes(chosen):
            break
        chosen += run
    return (tuple(sorted(f.path for f in chosen)),)


def open_cube(files: Iterable[AddFile], rewritten: Iterable[str], logical: Sequence[ColumnPath]) -> str | None:
    """The id of the cube that the output of an OPTIMIZE joins, the largest remaining one that is not closed; None if there is none.

    `rewritten`: the paths of the files that OPTIMIZE removes.
    """
    gone = set(rewritten)
    left = [f for f in files if f.path not in gone]
    sizes = _cubes(left, logical)
    open_cubes = [cube for cube, size_bytes in sizes.items() if size_bytes < CUBE_BYTES]
    return max(open_cubes, key=lambda cube: (sizes[cube], cube), default=None)


def _cubes(files: Iterable[AddFile], logical: Sequence[ColumnPath]) -> dict[str, int]:
    """The size in bytes of each cube of these columns, by id."""
    sizes: dict[str, int] = {}
    for file in files:
        if (cube := cube_of(file, logical)) is not None:
            sizes[cube] = sizes.get(cube, 0) + file.size_bytes
    return sizes


def _size_bytes(files: Iterable[AddFile]) -> int:
    return sum(f.size_bytes for f in files)
