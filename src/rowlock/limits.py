"""All thresholds of the data paths: from which size on work is done differently, and how much memory caches use.

Results never depend on a limit, only how they are computed.  Tests lower the limits, so that the code for large data runs on few rows.
Limits hold for the process and are set by `set_limits` or the environment: ROWLOCK_LIMITS_<NAME>, the name in capitals.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rowlock import arguments, threads
from rowlock.display import nearest
from rowlock.exceptions import InvalidInput, WrongType

PREFIX = "ROWLOCK_LIMITS_"
_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def driver_memory_bytes() -> int:
    """The memory that this process may use: the machine's, or what its container allows where that is less."""
    found = [4 * _GB]
    with suppress(ValueError, OSError):
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CGROUP:
        with suppress(ValueError, OSError):  # "max": without a limit
            found.append(int(Path(name).read_text()))
    return min(n for n in found if n > 0)


def _share(part: float, *, at_least: int, at_most: int) -> Any:
    """A dataclass field whose default is this fraction of the driver's memory, within bounds."""
    return field(default_factory=lambda: min(max(int(driver_memory_bytes() * part), at_least), at_most))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """The limits of a process: from which size on work goes another way, and how much memory caches take.

    Each field documents what it limits; the end of its name is the unit: rows, bytes, files, entries.  All are whole numbers of 0 or more, 1 or more where work is
    done in portions.  By default they fit this machine.

    Examples:
        >>> rowlock.Limits(driver_rows=7).driver_rows
        7
    """

    # ---- statements on Spark ----
    driver_rows: int = 100_000
    """Changed rows of one statement that are collected to the driver; more are written by Spark's executors, which takes about 0.1 s longer."""
    driver_bytes: int = 64 * _MB
    """Size in memory of the rows of one statement that are read or collected to the driver, estimated where they lie in files: of wide rows fewer come than `driver_rows`."""
    local_rows: int = 20_000
    """Rows of small files that one statement evaluates on the driver, without a Spark job; for more a scan is faster."""
    inspected_rows: int = 8_000_000
    """Rows of which single columns are read on the driver to find the matching rows."""
    unbounded_scan_rows: int = 2_000_000
    """A scan of at most this many rows that returns few columns runs without LIMIT, which would cost a second stage."""
    collected_positions_rows: int = 16_000_000
    """Rows of the files that one Spark job of a DELETE searches; the positions that it finds come to the driver, 16 bytes for each."""
    single_task_bytes: int = 32 * _MB
    """A scan of fewer bytes is a single task: two would take as long and need an exchange."""
    masked_bytes: int = 128 * _MB
    """Total size of the files in which an UPDATE or DELETE finds its rows by reading single columns on the driver."""
    masked_rows: int = 2_000_000
    """Rows that a DELETE may find that way, whose condition Spark evaluates on the driver; for more a Spark job is faster."""
    append_driver_bytes: int = 8 * _MB
    """Size of the rows, by Spark's estimate, that an append collects to the driver and writes there."""
    cross_pairs: int = 500_000
    """Pairs of rows that a MERGE without an equality condition may compare on the driver."""
    held_source_bytes: int = 32 * _MB
    """Size in memory of a MERGE's source that is held on the driver and sent along with tasks, of which Spark refuses one above 128 MB; a larger one lies in files."""
    broadcast_source_bytes: int = 10 * _MB
    """Size in files of a MERGE's source that Spark may send to every task (its own threshold is 10 MB); with a larger one target rows and inserts come of one outer join."""
    outer_join_ratio: int = 32
    """The outer join is also used where the target's files are at most this many times the source's size: shuffling them is cheaper than a second job."""
    moved_bytes: int = 256 * _GB
    """Size of the files that OPTIMIZE makes one of on the driver, with Arrow, a portion at a time; larger ones, and on a cluster more than `local_rows`, are Spark's."""
    moved_again_bytes: int = 256 * _MB
    """Size of the output that an OPTIMIZE writes once more while others wait, where these rewrote a file of it at the last moment, on a table without deletion vectors."""
    sorted_bytes: int = _share(1 / 32, at_least=128 * _MB, at_most=_GB)
    """Size in memory of the rows that clustering and ZORDER sort on the driver, with Arrow; more are Spark's.  By default 1/32 of the driver's memory, 128 MB to 1 GB."""
    sampled_rows: int = 20_000
    """Rows of the sample by which ZORDER and clustering divide a column's values into ranges."""
    plan_entries: int = 256
    """Resolved query plans that are cached."""

    # ---- data files without Spark ----
    append_file_bytes: int = 128 * _MB
    """Size in memory of the rows of one partition that an append writes to one file; the Parquet file is a half to a tenth of it."""
    append_held_bytes: int = 256 * _MB
    """Size of the rows that one append holds before it writes those of the largest partition to a file."""
    stream_kept_bytes: int = 64 * _MB
    """Size of the part of a stream that stays in memory, in case an append must stage it again."""
    stream_piece_bytes: int = 32 * _MB
    """An Arrow table is appended in pieces of about this size."""
    whole_object_bytes: int = 256 * _KB
    """Objects up to this size are read whole in one request; reading the footer alone takes one or two."""
    copied_piece_bytes: int = 16 * _MB
    """A data file that RESTORE copies is read in pieces of this size."""
    inline_vector_bytes: int = 0
    """Serialized deletion vectors up to this size are stored in the log, larger ones in a file: by default all in files, one for all vectors of a
    commit, since delta-spark's VACUUM fails on tables with a vector in the log.  All readers accept up to 65,535 characters."""
    open_tables: int = 64
    """Tables that `rowlock.append` and `rowlock.to_arrow` keep open in this process."""
    request_threads: int = 16
    """Requests for small objects that one call has under way: a store answers many in the time of one."""
    file_threads: int = 8
    """Data files that one call reads or writes on the driver at a time; of each some rows or columns are held in memory."""

    # ---- the log ----
    changed_files: int = 2_048
    """Recently changed files that a snapshot keeps one by one, before it merges them into its columnar frames."""
    snapshot_chunk_files: int = 50_000
    """Files in one frame of a snapshot, in one row group of a checkpoint, and in one sidecar file of a V2 checkpoint."""
    replay_batch_bytes: int = 32 * _MB
    """Size of the commits that are parsed at a time when a log is loaded."""
    cleaned_files: int = 50
    """Commits that one log cleanup deletes, one after the other, or twice as many as lie between two checkpoints where that is more; the rest waits for the next."""
    backfill_files: int = 100_000
    """Files that get row ids in one commit when row tracking is enabled on an existing table."""
    group_files: int = 2_000
    """Files that the appends of one group commit add; the rest waits for the next."""

    # ---- caches: bytes for the process, all tables together ----
    row_cache_bytes: int = _share(1 / 80, at_least=64 * _MB, at_most=512 * _MB)
    """Rows of small data files.  By default 1/80 of the driver's memory, 64 to 512 MB."""
    column_cache_bytes: int = _share(1 / 40, at_least=128 * _MB, at_most=_GB)
    """Single columns of large data files.  By default 1/40 of the driver's memory, 128 MB to 1 GB."""
    row_id_cache_bytes: int = _share(1 / 160, at_least=32 * _MB, at_most=256 * _MB)
    """Row ids and commit versions that data files hold.  By default 1/160 of the driver's memory, 32 to 256 MB."""
    vector_cache_bytes: int = _share(1 / 160, at_least=32 * _MB, at_most=256 * _MB)
    """Deletion vectors, by their serialized size.  By default 1/160 of the driver's memory, 32 to 256 MB."""
    commit_cache_bytes: int = _share(1 / 320, at_least=16 * _MB, at_most=128 * _MB)
    """Parsed commits of the log, at four times the size of their files.  By default 1/320 of the driver's memory, 16 to 128 MB."""
    path_cache_bytes: int = _share(1 / 640, at_least=8 * _MB, at_most=64 * _MB)
    """Paths of data files with the URIs that Spark makes of them, where these differ.  By default 1/640 of the driver's memory, 8 to 64 MB."""

    def __post_init__(self) -> None:
        for name in NAMES:
            arguments.number(getattr(self, name), f"the limit {name}")

    def __repr__(self) -> str:
        lines = [f"    {f.name}={getattr(self, f.name):_}," + _in_units(f.name, getattr(self, f.name)) for f in fields(self)]
        return "\n".join(["Limits(", *lines, ")"])


def _in_units(name: str, value: int) -> str:
    """A comment with a number of bytes in a larger unit."""
    if not name.endswith("_bytes") or value < _KB:
        return ""
    unit, word = (_GB, "GB") if value >= _GB else (_MB, "MB") if value >= _MB else (_KB, "KB")
    return f"  # {value / unit:.4g} {word}"


NAMES = tuple(f.name for f in fields(Limits))
_PORTIONS = (
    "collected_positions_rows", "sampled_rows", "snapshot_chunk_files", "backfill_files", "group_files", "copied_piece_bytes", "request_threads",
    "file_threads",
)  # fmt: skip
"""Limits on work that is done in portions, or side by side: at least one item at a time."""
_lock = threads.module_lock()
_current: Limits | None = None


def limits() -> Limits:
    """The current limits of this process.  Raises InvalidInput for an unknown name or invalid value in the environment."""
    global _current
    if (found := _current) is None:
        with _lock:
            found = _current = _current or from_environment(os.environ)
    return found


def set_limits(base: Limits | None = None, /, **values: int) -> Limits:
    """Changes limits of this process, from the next look at them on.  Needs no Spark.

    Args:
        base: Limits to start from; by default those of now.
        **values: New values by the names of `Limits`' fields.

    Returns:
        The limits of before, which `set_limits(before)` brings back.

    Raises:
        InvalidInput: A name is unknown, or a value is no such number; nothing is changed then.

    Examples:
        >>> before = rowlock.set_limits(driver_rows=1_000_000)
        >>> rowlock.set_limits(before).driver_rows
        1000000
    """
    global _current
    if base is not None and not isinstance(base, Limits):
        raise WrongType(f"base is what set_limits returned, a Limits, not {type(base).__name__}")
    checked = {name: _checked(name, value, name) for name, value in values.items()}
    before = limits()
    with _lock:
        _current = replace(base if base is not None else before, **checked)
    return before


@contextmanager
def limited(**values: int) -> Iterator[Limits]:
    """Sets limits of the process within a `with` block; afterwards the previous limits apply again."""
    before = set_limits(**values)
    try:
        yield limits()
    finally:
        set_limits(before)


def from_environment(environment: Mapping[str, str]) -> Limits:
    """The default limits of this machine, with those that ROWLOCK_LIMITS_<NAME> sets.  Raises InvalidInput."""
    values = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            value: object = text
            with suppress(ValueError):
                value = int(text.replace("_", ""))
            values[name] = _checked(name, value, variable)
    return Limits(**values)


def _checked(name: str, value: object, where: str) -> int:
    """The value of a limit, checked; `where` is what a message calls it."""
    if name not in NAMES:
        near = nearest(name, NAMES, 0.6)
        raise InvalidInput(f"There is no limit {where}" + (f"; did you mean {near}?" if near else f". The limits are: {', '.join(NAMES)}"))
    least = 1 if name in _PORTIONS else 0
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"The limit {where} is a whole number of {name.rsplit('_', 1)[-1]}, {least} or more, not {value!r}")
    return value
