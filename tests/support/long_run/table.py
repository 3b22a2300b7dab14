"""The table of a long run, and the rows that it must have after what was acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

import rowlock
from rowlock.api.append import opened
from rowlock.transaction.definition.creation import cluster_by, set_properties

ACCOUNTS, COUNTERS, MARGIN, START = 64, 20, 50, 100
"""Accounts with `START` each; counters that are merged; how far deletes stay behind the newest appended rows."""
OWN = 2
Row = tuple[int, str, int, int]
_COMPACTED = {"delta.autoOptimize.autoCompact": "true"}


@dataclass(frozen=True)
class Layout:
    """How the files of the table are laid out; `ordered`: upkeep calls ZORDER BY in place of compaction."""

    properties: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    clustered: bool = False
    ordered: bool = False


LAYOUTS = {
    "plain": Layout(),
    "without-vectors": Layout({"delta.enableDeletionVectors": "false"}),
    "partitioned": Layout(partitioned=True),
    "clustered": Layout(_COMPACTED, clustered=True),
    "ordered": Layout(_COMPACTED, ordered=True),
}


def create(path: str, layout: Layout, retention_s: int) -> None:
    """Makes the table, which keeps files and commits for so long."""
    rowlock.append(path, at_start(), partition_by=["owner"] if layout.partitioned else None, properties=layout.properties)
    set_properties(opened(path), dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), f"interval {retention_s} seconds"))
    if layout.clustered:
        cluster_by(opened(path), [("owner",), ("n",)])


def rows(of: Sequence[Row]) -> pa.Table:
    """Rows (id, owner, n, x) as an Arrow table."""
    ids, owners, numbers, values = zip(*of, strict=True)
    return pa.table({"id": ids, "owner": owners, "n": numbers, "x": values})


def at_start() -> pa.Table:
    return rows([(n, "account", 0, START) for n in range(ACCOUNTS)] + [(n, "own", 0, 0) for n in range(OWN)])


def expected(acknowledged: Iterable[dict[str, object]]) -> Counter[Row]:
    """The rows after all that was acknowledged; the order does not matter, since each of these statements commutes with the others."""
    accounts, counters, own, appended, below = Counter(dict.fromkeys(range(ACCOUNTS), START)), Counter[int](), Counter[int](), Counter[int](), 0
    for one in acknowledged:
        accounts.update({one["gives"]: -1, one["takes"]: 1} if "gives" in one else {})
        counters.update(one.get("counted", ()))
        own.update([one["own"]] if "own" in one else ())
        appended.update([one["append"]] if "append" in one else ())
        below = max(below, one.get("below", 0))
    there: Counter[Row] = Counter()
    there.update((n, "account", 0, x) for n, x in accounts.items())
    there.update((n, "counter", 0, x) for n, x in counters.items())
    there.update((n, "own", 0, own[n]) for n in range(OWN))
    for number, count in appended.items():
        left = (n for n in range(count) if not (n % 10 == 7 and n < below))
        there.update((3 * n + at, f"appender-{number}", n, 0) for n in left for at in range(3))
    return there
