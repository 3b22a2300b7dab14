"""Reads the live files of the newest version whole, column by column, and compares them with their statistics and deletion vectors, and their row ids
with each other and with the table's high-water mark; and the change data of each version with the difference of the versions around it, row by row.

At most one column of one live file is in memory per thread.  Columns that pyarrow may read otherwise than Spark are named and not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowlock import progress
from rowlock.conflict.change_feed import CHANGE_TYPE, cdc_file
from rowlock.display import first_line
from rowlock.exceptions import CorruptLog, InvalidInput, StorageError, UnsupportedFeature
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.finding import Finding, finding, of_files, of_versions, spans
from rowlock.maintenance.check.log import Step
from rowlock.parquet.files import open_parquet
from rowlock.parquet.physical import Doubtful, has_field_ids, rows_schema
from rowlock.parquet.reading import read_file
from rowlock.protocol import bounds, row_tracking, statistics
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.deletion_vector import living_mask, positions_except
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import ColumnPath, DataType
from rowlock.storage.store import ObjectStore
from rowlock.threads import side_by_side
from rowlock.transaction.state.shared import Vectors

UNREADABLE = (pa.ArrowException, OSError, CorruptLog, InvalidInput, StorageError, ValueError)
"""The errors of a file that is damaged, missing or inaccessible."""
_PORTION = 64


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of one live file, compared with its add action.

    wrong        the contradictions of its add action, as phrases
    unreadable   why the file or its vector cannot be read at all; then nothing else is known
    not_judged   why some columns were not compared
    misnamed     the table's names of columns that the file has instead of those that the log maps them to
    num_rows     the physical rows in the file
    cardinality  the rows that its deletion vector marks
    """

    file: AddFile
    wrong: tuple[str, ...] = ()
    unreadable: str = ""
    not_judged: str = ""
    misnamed: str = ""
    num_rows: int = 0
    cardinality: int = 0


def read_contents(store: ObjectStore, head: Snapshot) -> Iterator[Contents]:
    """The contents of each live file, in the order of their paths."""
    adds = sorted(head.files.adds(), key=lambda a: a.path)
    for start in range(0, len(adds), _PORTION):
        yield from side_by_side(lambda add: contents_of(store, head, add), adds[start : start + _PORTION], limits().file_threads)
        progress.count(min(start + _PORTION, len(adds)), len(adds), "files")


def contents_of(store: ObjectStore, head: Snapshot, add: AddFile) -> Contents:
    """The contents of one file, compared with its add action."""
    try:
        with open_parquet(store, add.path, add.size_bytes) as source:
            num_rows, misnamed = int(source.metadata.num_rows), _misnamed(head, source.schema_arrow)
        dead = Vectors(store).stored(add)
    except UNREADABLE as e:
        return Contents(add, unreadable=first_line(e))
    wrong = list(_wrong_counts(add, num_rows, dead))
    try:
        wrong += _wrong_statistics(store, head, add, num_rows, dead)
    except (Doubtful, UnsupportedFeature) as e:
        return Contents(add, tuple(wrong), not_judged=str(e), misnamed=misnamed, num_rows=num_rows, cardinality=len(dead))
    except UNREADABLE as e:
        return Contents(add, tuple(wrong), unreadable=first_line(e), num_rows=num_rows, cardinality=len(dead))
    return Contents(add, tuple(wrong), misnamed=misnamed, num_rows=num_rows, cardinality=len(dead))


def _misnamed(head: Snapshot, held: pa.Schema) -> str:
    """The columns that a file of a mapped table has under the names that people use, where it has none under its own; '' for any other file.

    A writer that does not know column mapping (DuckDB) writes such files, of which every reader takes all columns for null.
    """
    fields = [f for f in head.schema.fields if f.name not in head.partition_columns]
    if column_mapping_mode(head.metadata.configuration) == "none" or any(f.physical_name in held.names for f in fields) or has_field_ids(held):
        return ""
    return ", ".join(f.name for f in fields if f.name in held.names)


def _wrong_counts(add: AddFile, num_rows: int, dead: BitMap64) -> Iterator[str]:
    if add.stats and not add.parsed_stats() and add.stats.strip() not in ("{}", "null"):  # which state nothing
        yield "its statistics cannot be parsed"
    if add.num_records is not None and add.num_records != num_rows:
        yield f"{num_rows:,} rows, its statistics say {add.num_records:,}"
    elif add.num_records is None and add.deletion_vector is not None:
        yield "its statistics do not say how many rows it has, which a deletion vector needs"
    if add.deletion_vector is not None and add.deletion_vector.cardinality != len(dead):
        yield f"its deletion vector marks {len(dead):,} rows, the log says {add.deletion_vector.cardinality:,}"
    if dead and dead.max() >= num_rows:
        yield f"its deletion vector marks row {dead.max():,} of {num_rows:,}"


def _wrong_statistics(store: ObjectStore, head: Snapshot, add: AddFile, num_rows: int, dead: BitMap64) -> Iterator[str]:
    """Yields a phrase for each column whose bounds or null counts do not hold for the live rows.  Raises Doubtful."""
    stats = add.parsed_stats()
    if not any(stats.get(k) for k in ("minValues", "maxValues", "nullCount")):
        return
    every = rows_schema(head)
    alive = living_mask(num_rows, dead & positions_except(num_rows), add.path, head.table)
    tight = add.deletion_vector is None and stats.get("tightBounds") is not False
    leaves: dict[str, list[tuple[ColumnPath, DataType]]] = {}
    for path, leaf in head.schema.leaves():
        if path[0] not in head.partition_columns and _is_claimed(path, stats, head):
            leaves.setdefault(path[0], []).append((path, leaf.type))
    for name, of_column in leaves.items():
        rows = read_file(store, add, head, pa.schema([every.field(name)]))
        live = rows.filter(pa.array(alive)) if dead else rows
        for path, type_ in of_column:
            values = statistics.leaf_values(live, path)
            if values is not None and (why := _contradiction(path, type_, values, stats, head, tight)):
                yield f"column {'.'.join(path)}: {why}"


def _is_claimed(path: ColumnPath, stats: dict[str, object], head: Snapshot) -> bool:
    """Whether the statistics cover a leaf column."""
    physical = head.schema.physical_path(path)
    return physical is not None and any(bounds.lookup(stats.get(k), physical) is not None for k in ("minValues", "maxValues", "nullCount"))


def _contradiction(path: ColumnPath, type_: DataType, values: pa.ChunkedArray, stats: dict[str, object], head: Snapshot, tight: bool) -> str | None:
    """How live values contradict the statistics, as a reader interprets these; None if they do not."""
    found, physical = bounds.bounds_in_files(path, [{}], [stats], head.schema), head.schema.physical_path(path)
    if found is None or physical is None:
        return None
    (known,) = found
    nulls, stated = values.null_count, bounds.lookup(stats.get("nullCount"), physical)
    if tight and isinstance(stated, int) and stated != nulls:
        return f"{nulls:,} nulls, its statistics say {stated:,}"
    if nulls and not known.may_be_null:
        return f"{nulls:,} nulls, its statistics say that there are none"
    if nulls < len(values) and not known.may_be_non_null:
        return f"{len(values) - nulls:,} values, its statistics say that all are null"
    low, high = _extremes(values, type_)
    if low is not None and known.low is not None and low < known.low:
        return f"its least value {low} is below the minimum in its statistics"
    if high is not None and known.high is not None and high > known.high:
        return f"its greatest value {high} is above the maximum in its statistics"
    return None


def _extremes(values: pa.ChunkedArray, type_: DataType) -> tuple[object, object]:
    """The least and the greatest value as bounds are compared; None for what cannot be compared (NaN is no bound)."""
    if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
        return None, None
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    extremes = pc.min_max(values)
    try:
        return bounds.comparable(extremes["min"].as_py(), type_), bounds.comparable(extremes["max"].as_py(), type_)
    except (ValueError, OverflowError):  # years that Python does not have
        return None, None


def content_findings(contents: Sequence[Contents]) -> list[Finding]:
    """At most one finding of each kind, over all files with faults."""
    kinds: tuple[tuple[str, str, Callable[[Contents], str]], ...] = (
        ("file-does-not-read", "data files or their deletion vectors cannot be read", lambda c: c.unreadable),
        ("columns-by-other-names", "data files name columns otherwise than the log maps them", lambda c: c.misnamed),
        ("contents-contradict-log", "the contents of data files contradict the log", lambda c: next(iter(c.wrong), "")),
        ("columns-not-compared", "columns of data files were not compared with their statistics", lambda c: c.not_judged),
    )
    return [f for code, what, why in kinds for f in of_files(code, what, [(c.file.path, why(c)) for c in contents if why(c)])]


@dataclass(frozen=True, slots=True)
class RowIds:
    """The faults of the row ids of a version; `highest` is the highest id of a live file's rows, -1 if there is none."""

    bare: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    mark: int | None = None
    highest: int = row_tracking.NO_MARK

    @property
    def mark_is_low(self) -> bool:
        """Whether existing rows have ids above the mark, so that new rows would get the same ones."""
        return self.mark is None or self.mark < self.highest

    def findings(self) -> Iterator[Finding]:
        """At most one finding of each kind."""
        yield from of_files("row-ids-missing", "data files have no row ids though the table gives every row one", [(path, "") for path in self.bare])
        yield from of_files("row-ids-doubled", "data files have the same row ids for different rows", [(path, "") for path in self.doubled])
        if self.mark_is_low:
            mark = "cannot be read" if self.mark is None else f"is {self.mark:,}"
            text = f"the table's row id high-water mark {mark}, and there are row ids up to {self.highest:,}: new rows would get them again"
            yield finding("row-id-mark-low", text)


def row_ids(head: Snapshot, contents: Iterable[Contents]) -> RowIds:
    """The faults of the row ids of the newest version, by the real number of rows in its files."""
    if not row_tracking.assigns(head.protocol, head.metadata):
        return RowIds(mark=row_tracking.NO_MARK)
    bare, paths, starts, counts = list[str](), [], [], []
    enabled = row_tracking.is_enabled(head.protocol, head.metadata)
    for content in contents:
        if content.file.base_row_id is None:
            bare += [content.file.path] if enabled else []  # until it is enabled, old files have none
        elif not content.unreadable and content.num_rows:
            paths.append(content.file.path)
            starts.append(content.file.base_row_id)
            counts.append(content.num_rows)
    order = np.argsort(np.array(starts, np.int64), kind="stable")
    first, after = np.array(starts, np.int64)[order], (np.array(starts, np.int64) + np.array(counts, np.int64))[order]
    reached = np.maximum.accumulate(after) if len(after) else after
    clash = np.flatnonzero(first[1:] < reached[:-1]) + 1
    try:
        mark: int | None = row_tracking.high_water_mark(head.domains, head.table)
    except CorruptLog:
        mark = None
    return RowIds(tuple(bare), tuple(paths[order[n]] for n in clash), mark, int(reached[-1]) - 1 if len(reached) else row_tracking.NO_MARK)


_ROWS = 2_000_000
"""A version with more rows, which would be in memory at once, is named and not compared."""
_SIGN = "__rowlock_sign"
_ADDED, _TAKEN = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(slots=True)
class Feeds:
    """The comparison of change data files: how many versions were compared, and by version the differences and the reasons for no comparison."""

    compared: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    not_compared: dict[int, str] = field(default_factory=dict)

    def take(self, store: ObjectStore, step: Step) -> None:
        """Compares the next version."""
        commit = step.commit
        if commit is None or not commit.cdc or not commit.removes:
            return
        if step.before is None or step.after is None or step.before.schema != step.after.schema:
            self.not_compared[step.version] = "the version before it cannot be built, or has other columns"
            return
        try:
            off = _difference(store, step.before, step)
        except (*UNREADABLE, Doubtful, UnsupportedFeature) as e:
            self.not_compared[step.version] = first_line(e)
            return
        self.compared += 1
        if off:
            self.wrong[step.version] = f"{off:,} rows"

    def findings(self) -> Iterator[Finding]:
        """At most one finding of each kind."""
        if self.wrong:
            text = f"change data files contradict the changes of their versions ({spans(self.wrong)}; {next(iter(self.wrong.values()))} more or fewer)"
            yield finding("feed-contradicts-versions", text, self.wrong)
        yield from of_versions("feeds-not-compared", "change data files were not compared with their versions", self.not_compared)


def _difference(store: ObjectStore, before: Snapshot, step: Step) -> int:
    """The number of surplus and missing rows: the rows before, plus the feed's additions, less its deletions, must be the rows after."""
    assert step.commit is not None and step.after is not None
    commit, after = step.commit, step.after
    gone = list(before.files.get(r.path for r in commit.removes).values())
    count = sum((f.num_records or 0) for f in (*gone, *commit.adds))
    if count > _ROWS:
        raise UnsupportedFeature(f"{count:,} rows would have to be held at once", feature="large change data", access="read")
    parts = [_signed(_live(store, f, before), 1) for f in gone] + [_signed(_live(store, f, after), -1) for f in commit.adds]
    for action in commit.cdc:
        rows, kinds = _changes(store, action, after)
        parts += [_signed(rows.filter(pc.is_in(kinds, pa.array(wanted))), sign) for wanted, sign in ((_ADDED, 1), (_TAKEN, -1))]
    rows = pa.concat_tables([pa.table([_groupable(c) for c in p.columns], names=[*map(str, range(len(p.columns) - 1)), _SIGN]) for p in parts])
    sums = rows.group_by(rows.column_names[:-1]).aggregate([(_SIGN, "sum")])
    return int(pc.sum(pc.abs(sums.column(f"{_SIGN}_sum"))).as_py() or 0)


def _groupable(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column whose equal values are one key for Arrow: nested ones as text, and one zero and one NaN."""
    if pa.types.is_nested(column.type):
        return pa.array([None if v is None else repr(v) for v in column.to_pylist()], pa.string())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), pc.add(column, pa.scalar(0.0, column.type)))
    return column


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    return rows.append_column(_SIGN, pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows))


def _live(store: ObjectStore, file: AddFile, snapshot: Snapshot) -> pa.Table:
    rows = read_file(store, file, snapshot, rows_schema(snapshot), time_zone="UTC")
    return rows.filter(pa.array(living_mask(rows.num_rows, Vectors(store).of(file), file.path, snapshot.table)))


def _changes(store: ObjectStore, action: AddCdcFile, snapshot: Snapshot) -> tuple[pa.Table, pa.ChunkedArray]:
    """The rows of a change data file, and the kind of change of each."""
    file = cdc_file(action, snapshot.table)
    rows = read_file(store, file, snapshot, rows_schema(snapshot), time_zone="UTC")
    with open_parquet(store, file.path, file.size_bytes) as source:
        kinds = source.read(columns=[CHANGE_TYPE]).column(CHANGE_TYPE)
    return rows, kinds
