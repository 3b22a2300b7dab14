"""What is measured: suites of cases, the engines beside each other in them, their sizes, and the goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowlock_bench.contend import SHAPES
from rowlock_bench.engines import DELTA_SPARK, PARQUET, ROWLOCK
from rowlock_bench.statements import IDLE, LARGE, SCANS, SHARES

DELTALAKE = "deltalake"
PACKAGES = {DELTA_SPARK: "delta", DELTALAKE: "deltalake"}
"""The module that an engine besides Rowlock needs."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Measurements of one kind: the module that runs one, in a process of its own, by an engine, with the parameters of a case and of a size.

    title, about   of the page
    engines        the first is compared with the second, lines that the second lacks with the third
    cases          by label; without labels where there is one
    goals          by line: how much of the peer's time, or of its commits, Rowlock is to need, or to make
    """

    module: str
    title: str
    about: str
    engines: tuple[str, ...]
    full: Mapping[str, Any]
    quick: Mapping[str, Any]
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    goals: Mapping[str, float] = field(default_factory=dict)


_OPS: dict[str, dict[str, Any]] = {"UPDATE": {"op": "update"}, "MERGE": {"op": "merge"}}
_TRACKED = {"rowlock.onConflict": "lockless", "delta.enableRowTracking": "true"}
_POLICIES: dict[str, dict[str, Any]] = {
    "repair": {"rowlock.onConflict": "repair"},
    "lockless": _TRACKED,
    "rerun by row": {"rowlock.onConflict": "rerun", "rowlock.granularity": "row"},
    "fail by row": {"rowlock.onConflict": "fail", "rowlock.granularity": "row"},
    "rerun by file": {"rowlock.onConflict": "rerun", "rowlock.granularity": "file"},
    "fail by file": {"rowlock.onConflict": "fail", "rowlock.granularity": "file"},
}
_RACE = "Each writer adds 1 to rows of its own, in the same file; what fails is run again."

_LARGER = tuple(name for name in LARGE if name not in ("MERGE of as many rows, half of them new", "two MERGEs at once"))
"""Of the large statements those that take delta-spark minutes, and not half an hour, on ten times as many rows."""

SUITES = {
    "contended": Suite(
        "contend",
        "Writers of one file, as threads",
        f"8 threads of one session. {_RACE}",
        (ROWLOCK, DELTA_SPARK),
        {"rows": 1_000_000, "writers": 8, "commits": 24, "seconds": 60},
        {"rows": 200_000, "writers": 4, "commits": 8, "alone": 3, "seconds": 15},
        _OPS,
        {"UPDATE: commits/s": 30, "MERGE: commits/s": 30},
    ),
    "shapes": Suite(
        "contend",
        "Writers of one file, by the shape of their condition",
        f"6 threads of one session. {_RACE}",
        (ROWLOCK, DELTA_SPARK),
        {"rows": 500_000, "writers": 6, "commits": 18, "alone": 2, "seconds": 30},
        {"rows": 100_000, "writers": 3, "commits": 6, "alone": 1, "seconds": 10},
        {name: {"shape": name} for name in SHAPES if name != "integers"},
        {f"{name}: commits/s": 30 for name in SHAPES if name != "integers"},
    ),
    "processes": Suite(
        "contend",
        "Writers of one file, as processes",
        f"3 processes with a session each, measured from their first statement on. {_RACE}",
        (ROWLOCK, DELTA_SPARK),
        {"rows": 1_000_000, "writers": 3, "commits": 60, "seconds": 60, "processes": True},
        {"rows": 100_000, "writers": 2, "commits": 8, "alone": 1, "seconds": 15, "processes": True},
        _OPS,
        {"UPDATE: commits/s": 30, "MERGE: commits/s": 20},
    ),
    "policies": Suite(
        "contend",
        "Policies and granularities",
        f"8 threads of one session. {_RACE} By row no two writers conflict; by file all do.",
        (ROWLOCK,),
        {"rows": 200_000, "writers": 8, "commits": 16, "seconds": 60},
        {"rows": 100_000, "writers": 3, "commits": 6, "alone": 1, "seconds": 10},
        {name: {"properties": properties} for name, properties in _POLICIES.items()},
    ),
    "large": Suite(
        "statements",
        "Large statements",
        "One after the other on one table, each run once. Plain Parquet files are written, read and rewritten by the same session.",
        (ROWLOCK, DELTA_SPARK, PARQUET),
        {"rows": 5_000_000, "statements": LARGE},
        {"rows": 500_000, "statements": LARGE, "memory_mb": 2048},
        goals={"write, s": 0.55, "OPTIMIZE, s": 0.5},
    ),
    "larger": Suite(
        "statements",
        "Most of these statements on ten times as many rows",
        "As above, on fifty million rows: what grows with the table, and what does not.",
        (ROWLOCK, DELTA_SPARK),
        {"rows": 50_000_000, "statements": _LARGER},
        {"rows": 2_000_000, "statements": _LARGER, "memory_mb": 2048},
    ),
    "idle": Suite(
        "statements",
        "Statements without a competitor",
        "One after the other on one table, each run once, the first of its kind in its process.",
        (ROWLOCK, DELTA_SPARK, PARQUET),
        {"rows": 5_000_000, "statements": ("write", *IDLE)},
        {"rows": 500_000, "statements": ("write", *IDLE), "memory_mb": 2048},
        goals={"DELETE of 1 %, s": 0.5, "scan, 1 % in vectors, s": 0.6, "scan after all, s": 0.6},
    ),
    "scans": Suite(
        "statements",
        "Scans of files with deletion vectors",
        "0.1, 1.1 and 11 % of the rows are in deletion vectors when the table is scanned: once, with what Spark compiles for it, and then three times. "
        "A vector names rows by their numbers, which cost by themselves: a scan of plain Parquet that also adds up Spark's row numbers took 1.29 times the "
        "processor time of one that does not, and 1.33 times with a condition on them.",
        (ROWLOCK, PARQUET, DELTA_SPARK),
        {"rows": 5_000_000, "statements": ("write", *SCANS)},
        {"rows": 500_000, "statements": ("write", *SCANS), "memory_mb": 2048},
        goals={f"{scans}, {share} in vectors, s": 1.1 for scans in ("scan", "three more scans") for share in SHARES},
    ),
    "clustering": Suite(
        "clustering",
        "Clustering by two keys",
        "Both tables begin with the same files; 100 ranges of one key or both; then rounds that append 2 % of the rows and optimize.",
        (ROWLOCK, DELTA_SPARK),
        {"rows": 2_000_000, "target_kb": 1024, "rounds": 5},
        {"rows": 200_000, "target_kb": 512, "rounds": 2},
        goals={"first OPTIMIZE, s of a processor": 0.8, "size of the files, MB": 1.0},
    ),
    "appends": Suite(
        "appends",
        "Small appends",
        "Processes that append 100 rows at a time to one table on a local disk, without Spark.",
        (ROWLOCK, DELTALAKE),
        {"seconds": 6},
        {"seconds": 2},
        {f"{n} processes": {"writers": n} for n in (1, 8, 16)},
    ),
    "start": Suite(
        "start",
        "The first append of a process",
        "From the import to the end of one append; pyarrow, which the rows need, is there already.",
        (ROWLOCK, DELTALAKE),
        {"times": 9},
        {"times": 3},
    ),
    "load": Suite(
        "load",
        "A table of many files",
        "A checkpoint that names a million files, each with its statistics; a new process looks at it.",
        (ROWLOCK, DELTALAKE),
        {"files": 1_000_000},
        {"files": 50_000},
        goals={"the first look, s": 0.3, "peak of memory, MB": 0.6},
    ),
    "log": Suite(
        "load",
        "A long log",
        "A checkpoint that names 100,000 files, and 10,000 commits after it; a new process looks at it.",
        (ROWLOCK, DELTALAKE),
        {"files": 100_000, "commits": 10_000},
        {"files": 10_000, "commits": 1_000},
    ),
    "losing": Suite(
        "losing",
        "What losing costs",
        "An UPDATE of 1,000 rows of a large table, in 8 files, loses to a winner: what it does from then on, beside a run of the whole statement.",
        (ROWLOCK,),
        {"rows": 10_000_000},
        {"rows": 1_000_000},
        {"a winner that changed 10 of the rows": {"winner": "rows"}, "a winner that compacted the files": {"winner": "files"}},
    ),
}
FIRST_PAGE = {
    ("contended", "UPDATE: commits/s"): "UPDATE, 8 threads, one file of a million rows",
    ("contended", "MERGE: commits/s"): "MERGE, 8 threads, one file of a million rows",
    ("appends", "16 processes: appends/s"): "appends, 16 processes, local disk",
}
"""The lines of the README's table."""
