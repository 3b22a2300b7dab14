"""Chooses the files that OPTIMIZE rewrites, also by itself after a commit of rows: bins of small files, files with many deleted rows, files to be Z-ordered or clustered.

Clustered are files that are not yet, together with earlier runs less than twice their size.
A run is the output of one OPTIMIZE.  New files are sorted by themselves, so that a small append does not rewrite the
table, and runs of similar size are merged: each remaining run is at least twice as large as the next, so a query reads
about log2(size of the table / size of an append) runs, and with equal appends a row is rewritten that often over the years.
(delta-spark merges all, up to cubes of 100 GiB.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rowlock import clock
from rowlock.boundary.engine import Statement
from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.curves import Order
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import Clustering, cube_of, run_of, state_of_file, stored_columns
from rowlock.protocol.partition_values import one_spelling
from rowlock.protocol.schema import ArrayType, ColumnPath, DataType, MapType, column_name, column_path, type_names
from rowlock.protocol.session_settings import Settings

DEAD_SHARE = 0.05
Bins = tuple[tuple[str, ...], ...]
Types = Mapping[str, DataType]
_Partition = tuple[tuple[str, str | None], ...]


def target_bytes(snapshot: Snapshot, asked: int | None = None) -> int:
    """The size in bytes up to which files are packed into one output: `asked`, else delta.targetFileSize, else 1 GiB."""
    return asked or snapshot.properties.target_file_bytes


def partition_types(snapshot: Snapshot) -> Types:
    """The types of the partition columns, by the names that they have in files."""
    return {f.physical_name: f.type for f in snapshot.schema.fields if f.name in snapshot.partition_columns}


def small_files(files: Iterable[AddFile], written: Iterable[AddFile], below: int, least: int, types: Types) -> list[AddFile]:
    """The files of fewer than `below` bytes in the partitions of `written`; none in a partition that has fewer than `least` of them."""
    touched = {_partition(f, types) for f in written}
    groups = _by_partition((f for f in files if f.size_bytes < below and _partition(f, types) in touched), types)
    return [f for group in groups if len(group) >= least for f in group]


def choose_bins(files: Iterable[AddFile], target: int, below: int | None = None, types: Types = MappingProxyType({})) -> Bins:
    """Groups of paths, each group to be compacted into one file; all files of a group are in the same partition, however its values are spelled.

    Files are chosen that are smaller than `below` bytes (by default `target`), or more than DEAD_SHARE of whose rows are deleted.
    A single file is rewritten only to remove deleted rows.
    """
    bins: list[tuple[str, ...]] = []
    for group in _by_partition((f for f in files if f.size_bytes < (below or target) or dead_share(f) > DEAD_SHARE), types):
        for chosen in _first_fit(group, target):
            if len(chosen) > 1 or chosen[0].deletion_vector is not None:
                bins.append(tuple(f.path for f in chosen))
    return tuple(bins)


def purge_bins(files: Iterable[AddFile], holding_dropped: Iterable[AddFile]) -> Bins:
    """Each file with deleted rows or dropped columns as a group of its own, to be rewritten without them and not combined with others."""
    dropped = {f.path for f in holding_dropped}
    return tuple((f.path,) for f in files if f.deletion_vector is not None or f.path in dropped)


def order_bins(files: Iterable[AddFile], types: Types = MappingProxyType({})) -> Bins:
    """All files of each partition as one group, to be Z-ordered together, including files that are ordered already."""
    return tuple(tuple(f.path for f in group) for group in _by_partition(files, types))


def order_columns(snapshot: Snapshot, names: Sequence[str]) -> tuple[ColumnPath, ...]:
    """The columns of a ZORDER BY as the schema spells them, without repetitions; a dot in a name selects a struct field.

    Raises InvalidInput for unknown ones.  Raises StatementRefused for partition columns, for columns
    without statistics (no file could be skipped by them), and on tables with clustering columns.
    """
    table, schema = snapshot.table, snapshot.schema
    if stored_columns(snapshot.domains, table):
        text = "The table has clustering columns: executeCompaction() orders it by them, ZORDER BY is not for such tables"
        raise StatementRefused(text, what="ZORDER BY", table=table, condition=named("DELTA_CLUSTERING_WITH_ZORDER_BY", zOrderBy=", ".join(names)))
    with_stats = {path for path, _ in snapshot.stats_leaves()}
    out: list[ColumnPath] = []
    for name in names:
        path = schema.spelled(column_path(name), (name,))
        if path is None:
            text = f"There is no column {name!r} to order by; the table has {', '.join(schema.names)}"
            raise InvalidInput(text, table=table, condition=named("DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST", columnName=name))
        if path[0] in snapshot.partition_columns:
            text = f"{name} is a partition column. Z-Ordering can only be performed on data columns: a file holds one value of this one"
            raise StatementRefused(text, what=name, table=table, condition=named("DELTA_ZORDERING_ON_PARTITION_COLUMN", colName=name))
        if (field := schema.resolve(path)) is not None and (isinstance(field.type, (ArrayType, MapType)) or "variant" in type_names(field.type)):
            raise StatementRefused(f"Values of column {name} have no order: leave it out of ZORDER BY", what=name, table=table)
        if schema.physical_path(path) not in with_stats:
            text = f"Column {name} has no statistics, by which files could be skipped: see delta.dataSkippingStatsColumns and delta.dataSkippingNumIndexedCols"
            setting = "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled"
            condition = named("DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS", cols=f"[{name}]", zorderColStatKey=setting)
            raise StatementRefused(text, what=name, table=table, condition=condition)
        if path not in out:
            out.append(path)
    return tuple(out)


def _by_partition(files: Iterable[AddFile], types: Types) -> list[list[AddFile]]:
    groups: dict[_Partition, list[AddFile]] = {}
    for file in files:
        groups.setdefault(_partition(file, types), []).append(file)
    return list(groups.values())


def _partition(file: AddFile, types: Types) -> _Partition:
    return tuple((name, one_spelling(file.partition_values[name], types.get(name))) for name in sorted(file.partition_values))


def dead_share(file: AddFile) -> float:
    """The share of a file's rows that its deletion vector marks; 0 if the number of rows is not known."""
    rows = file.num_records
    return file.dead_rows / rows if rows else 0.0


def _first_fit(files: list[AddFile], target: int) -> list[list[AddFile]]:
    """Bins of at most `target` bytes, by first fit, large files first."""
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


CUBE_BYTES = 100 << 30
"""A cube of this size is closed: delta-spark (`optimize.clustering.mergeStrategy.minCubeSize.threshold`) merges nothing more with it, nor does Rowlock."""


def clustering_bins(files: Iterable[AddFile], stored: Sequence[ColumnPath], logical: Sequence[ColumnPath], *, full: bool = False) -> Bins:
    """One group: the files that OPTIMIZE is to sort together; no group if all files are clustered.  `full`: all files, but for one that is clustered alone.

    `stored` are the clustering columns by physical name, `logical` by logical name.  Files clustered by other columns are left as they are.
    """
    all_files = list(files)
    states = {f.path: state_of_file(f, stored, logical) for f in all_files}
    if full:
        done = all(states[f.path] == "clustered" and f.deletion_vector is None for f in all_files) and len(all_files) < 2
        return () if done else (tuple(sorted(f.path for f in all_files)),)
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


Words = Mapping[str, Any]
"""Parameters of the operation beside its predicate."""


def compaction(snapshot: Snapshot, files: Sequence[AddFile], settings: Settings, *, full: bool = False) -> tuple[Statement, Words]:
    """The rewriting of small files, and of files with many deleted rows, into fewer; in the order of the clustering columns where there are some.

    `full`: all files of a table with clustering columns.  Raises StatementRefused for a table without.
    """
    columns = snapshot.clustering_columns
    if full and not columns:
        text = "OPTIMIZE FULL is for tables with clustering columns, and this one has none"
        raise StatementRefused(text, what="OPTIMIZE FULL", table=snapshot.table, condition=named("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"))
    target = target_bytes(snapshot, settings.size("optimize.maxFileSize"))
    if not columns:
        return Statement("move", None, only=choose_bins(files, target, settings.size("optimize.minFileSize"), partition_types(snapshot))), {}
    return _clustered(snapshot, columns, files, target, full=full), {"clusterBy": [column_name(c) for c in columns], "isFull": full}


def auto_compaction(snapshot: Snapshot, written: Sequence[AddFile], settings: Settings) -> Statement | None:
    """The rewriting of the small files of those partitions in which `written` lie, where there are enough of them; None where nothing is to be done."""
    target = settings.size("autoCompact.maxFileSize") or int(settings.text("autoCompact.maxFileSize") or 0)
    below, least = settings.size("autoCompact.minFileSize") or target // 2, int(settings.text("autoCompact.minNumFiles") or 0)
    types = partition_types(snapshot)
    files = small_files(snapshot.files.adds(), written, below, least, types)
    if not files:
        return None
    if columns := snapshot.clustering_columns:
        return _clustered(snapshot, columns, files, target)
    bins = choose_bins(files, target, below, types)
    return Statement("move", None, only=bins) if bins else None


def _clustered(snapshot: Snapshot, columns: tuple[ColumnPath, ...], files: Sequence[AddFile], target: int, *, full: bool = False) -> Statement:
    stored = stored_columns(snapshot.domains, snapshot.table)
    bins = clustering_bins(files, stored, columns, full=full)
    cube = open_cube(files, (path for group in bins for path in group), columns) or clock.new_id()
    return Statement("move", Order(columns, target, Clustering(stored, columns, cube, clock.new_id())), only=bins)
