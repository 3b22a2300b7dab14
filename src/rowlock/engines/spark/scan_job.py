"""Evaluates a resolved statement over data files in one Spark job and brings the resulting rows to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from rowlock.conflict.delta import Slice
from rowlock.engines.spark.addressed_rows import Addressed, addressed_by_hash, rows_in_slices
from rowlock.engines.spark.catalyst.analysis import Relation, Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject, to_arrow
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot


class TooManyRows(Exception):
    """A scan gave more rows than may come to the driver (`limits().driver_rows`); the caller lets Spark write them."""


def scan(
    evaluator: Evaluator,
    slices: Sequence[Slice],
    relation: Relation,
    resolved: Resolved,
    session: JavaObject,
    snapshot: Snapshot,
    *,
    join: Callable[[JavaObject], JavaObject] | None = None,
    bounded: bool = False,
    narrow: bool = False,
    most: int | None = None,
) -> Addressed:
    """The outputs of `resolved` for the rows of `slices` that meet its condition, in one job.  The last two outputs must be the address.

    `join` wraps the plan of the files, before the condition.  `bounded` puts a LIMIT on the result, which scans of many
    rows always have; `narrow` says that the outputs are few columns, so that more rows are scanned without one.  `most` rows may come (default: `limits().driver_rows`).
    Dead rows are filtered on the driver.  Where an expression fails (under ANSI it may, on a dead row) the scan is
    repeated with the dead rows taken off inside Spark.  Raises TooManyRows, Spark's errors.
    """
    files, most = [s.file for s in slices], limits().driver_rows if most is None else most
    bounded = bounded or evaluator.physical_rows(slices) > (limits().unbounded_scan_rows if narrow else limits().driver_rows)
    if sum(f.size_bytes for f in files) <= limits().single_task_bytes:
        session.conf().set("spark.sql.files.minPartitionNum", "1")
    physical = evaluator.physical_plan(snapshot, files, relation)
    hashed = replace(resolved, outputs=evaluator.with_hashed_address(resolved.outputs, snapshot))
    try:
        table = _collect(evaluator, physical, hashed, session, most if bounded else None, join)
    except PySparkException:
        if not any(s.without or s.only is not None for s in slices):
            raise
        live = evaluator.live_plan(snapshot, slices, relation.attributes)
        table = _collect(evaluator, live, hashed, session, most if bounded else None, join)
    if table.num_rows > most:
        raise TooManyRows
    return rows_in_slices(addressed_by_hash(table, evaluator.paths_by_hash(slices)), slices)


def _collect(
    evaluator: Evaluator,
    child: JavaObject,
    resolved: Resolved,
    session: JavaObject,
    most: int | None,
    join: Callable[[JavaObject], JavaObject] | None,
) -> pa.Table:
    """The rows of a job; at most one more than `most`, if given."""
    if join is not None:
        child = join(child)
    plan = resolved.over(evaluator.bridge, child)
    frame: DataFrame = evaluator.bridge.dataframe(plan, evaluator.spark, session)
    return to_arrow(frame if most is None else frame.limit(most + 1))
