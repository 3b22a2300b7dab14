"""Choosing what a compaction rewrites: bins of small files, files with many dead rows, and what is to lie in an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import is_clustered, stored_columns
from rowlock.protocol.schema import ColumnPath, column_path
from rowlock.protocol.statistics import indexed_leaves

TARGET_BYTES = 1024 * 1024 * 1024
DEAD_SHARE = 0.05
Bins = tuple[tuple[str, ...], ...]


def target_bytes(snapshot: Snapshot) -> int:
    """How large an output may become: as the table says (delta.targetFileSize), else 1 GiB."""
    return snapshot.properties.target_file_bytes or TARGET_BYTES


def choose_bins(files: Iterable[AddFile], target: int) -> Bins:
    """Groups of paths, each to become one file; a group lies within one partition.

    A file is taken where it is smaller than the target or more than DEAD_SHARE of its rows are dead.
    One file alone is rewritten only for its dead rows.
    """
    bins: list[tuple[str, ...]] = []
    for group in _by_partition(f for f in files if f.size_bytes < target or _dead_share(f) > DEAD_SHARE):
        for chosen in _packed(group, target):
            if len(chosen) > 1 or chosen[0].deletion_vector is not None:
                bins.append(tuple(f.path for f in chosen))
    return tuple(bins)


def order_bins(files: Iterable[AddFile]) -> Bins:
    """All files of each partition, to be put in order together; also those that lie in an order already."""
    return tuple(tuple(f.path for f in group) for group in _by_partition(files))


def clustering_bins(files: Iterable[AddFile], stored: Sequence[ColumnPath], logical: Sequence[ColumnPath], target: int) -> Bins:
    """One group of files that do not lie in the order of the clustering columns, and files with many dead rows.

    `stored` are the columns by their names in files, `logical` by the table's own.
    Files that were clustered before stay as they are, but for small ones, of which else one more would come each time.
    """
    held = list(files)
    fresh = [f for f in held if not is_clustered(f, stored, logical) or _dead_share(f) > DEAD_SHARE]
    if not fresh:
        return ()
    chosen = {f.path for f in fresh} | {f.path for f in held if f.size_bytes < target // 2}
    return (tuple(sorted(chosen)),)


def order_columns(snapshot: Snapshot, names: Sequence[str]) -> tuple[ColumnPath, ...]:
    """The columns of a ZORDER BY, by the table's own names; a dot goes into a struct.

    Raises InvalidInput for none and for unknown ones, StatementRefused for partition columns, for columns without
    statistics, by which no file could be skipped, and on a table that has clustering columns of its own.
    """
    table, schema = snapshot.table, snapshot.schema
    if not names:
        raise InvalidInput("ZORDER BY needs at least one column", table=table)
    if stored_columns(snapshot.domains, table):
        raise StatementRefused(
            "The table has clustering columns: executeCompaction() orders it by them, ZORDER BY is not for such tables", what="ZORDER BY", table=table
        )
    properties = snapshot.properties
    leaves = indexed_leaves(
        schema, num_indexed=properties.num_indexed_columns, stats_columns=properties.stats_columns, partition_columns=snapshot.partition_columns
    )
    with_stats = {path for path, _ in leaves}
    out: list[ColumnPath] = []
    for name in names:
        path = _spelled(snapshot, column_path(name))
        if path is None:
            raise InvalidInput(f"There is no column {name!r} to order by; the table has {', '.join(schema.names)}", table=table)
        if path[0] in snapshot.partition_columns:
            raise StatementRefused(
                f"{name} is a partition column. Z-Ordering can only be performed on data columns: a file holds one value of this one", what=name, table=table
            )
        if schema.physical_path(path) not in with_stats:
            raise StatementRefused(
                f"Column {name} has no statistics, by which files could be skipped: see delta.dataSkippingStatsColumns and delta.dataSkippingNumIndexedCols",
                what=name,
                table=table,
            )
        if path not in out:
            out.append(path)
    return tuple(out)


def _spelled(snapshot: Snapshot, path: ColumnPath) -> ColumnPath | None:
    """A path as the schema spells it; a name with dots may be that of one column."""
    for parts in (path, (".".join(path),)):
        if parts and snapshot.schema.resolve(parts) is not None:
            found = [snapshot.schema.resolve(parts[: n + 1]) for n in range(len(parts))]
            return tuple(f.name for f in found if f is not None)
    return None


def _by_partition(files: Iterable[AddFile]) -> list[list[AddFile]]:
    groups: dict[tuple[tuple[str, str | None], ...], list[AddFile]] = {}
    for file in files:
        groups.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    return list(groups.values())


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
