"""Compares the change data files of each version with the difference of the versions around it, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.exceptions import UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.contents import UNREADABLE
from rowlock.maintenance.check.finding import Finding, finding, of_versions, spans
from rowlock.maintenance.check.log import Step
from rowlock.parquet.files import open_parquet
from rowlock.parquet.physical import Doubtful, nullable_schema
from rowlock.parquet.reading import read_file
from rowlock.protocol import paths
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.arrow_types import to_arrow
from rowlock.protocol.change_feed import CHANGE_TYPE
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.vectors import Vectors

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
            self.not_compared[step.version] = (str(e).splitlines() or [type(e).__name__])[0]
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


def _wanted(snapshot: Snapshot) -> pa.Schema:
    return nullable_schema(to_arrow(snapshot.schema))


def _live(store: ObjectStore, file: AddFile, snapshot: Snapshot) -> pa.Table:
    rows = read_file(store, file, snapshot, _wanted(snapshot), time_zone="UTC")
    mask = np.ones(rows.num_rows, dtype=np.bool_)
    mask[bitmap_to_numpy(Vectors(store).of(file))] = False
    return rows.filter(pa.array(mask))


def _changes(store: ObjectStore, action: AddCdcFile, snapshot: Snapshot) -> tuple[pa.Table, pa.ChunkedArray]:
    """The rows of a change data file, and the kind of change of each."""
    raw = action.raw
    file = AddFile(paths.decode(raw["path"], snapshot.table), raw.get("partitionValues") or {}, raw["size"], 0, False, None)
    rows = read_file(store, file, snapshot, _wanted(snapshot), time_zone="UTC")
    with open_parquet(store, file.path, file.size_bytes) as source:
        kinds = source.read(columns=[CHANGE_TYPE]).column(CHANGE_TYPE)
    return rows, kinds
