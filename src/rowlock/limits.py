"""Every threshold of the data paths, in one place: where one way of doing something gives way to another, and how much memory caches take.

A result never depends on a limit; only the way to it does.  Tests turn limits down, so that the ways of large data run on a few rows.
Limits are set for the process, by `set_limits` or by the environment: ROWLOCK_LIMITS_<NAME>, the name in capitals.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rowlock.exceptions import InvalidInput

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
    """A field whose default is this part of the driver's memory, within bounds."""
    return field(default_factory=lambda: min(max(int(driver_memory_bytes() * part), at_least), at_most))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """The limits of a process, by default those for this machine.  Units end the names: rows, bytes, files, entries.  All are whole numbers: 0 or more, 1 or more where work is done in portions."""

    # ---- statements on Spark ----
    driver_rows: int = 100_000
    """Changed rows of one statement that come to the driver; more are written by Spark where they are, a tenth of a second later."""
    local_rows: int = 20_000
    """Rows of small files that one statement evaluates on the driver, without a job; above that a scan is quicker."""
    inspected_rows: int = 8_000_000
    """Rows of which single columns are looked at on the driver to find those that matter."""
    unbounded_scan_rows: int = 2_000_000
    """A scan of at most so many rows that brings back few columns runs without LIMIT, which costs a second stage."""
    single_task_bytes: int = 32 * _MB
    """A scan of fewer bytes is one task: two would take as long and cost an exchange."""
    masked_bytes: int = 128 * _MB
    """Size of the files in which an UPDATE or DELETE finds its rows by columns on the driver."""
    masked_rows: int = 60_000
    """Rows that may be found that way; for more Spark's scan is quicker."""
    append_driver_bytes: int = 8 * _MB
    """Rows, by Spark's estimate, that an append takes to the driver and writes there."""
    cross_pairs: int = 500_000
    """Pairs of rows that a MERGE without equal keys may compare on the driver."""
    scan_groups: int = 24
    """Groups of files (by partition values, with and without vector) that a scan reads as a union; more are joined with a table of their values."""
    sampled_rows: int = 20_000
    """Rows of the sample by which ZORDER and clustering divide the values of a column."""
    plan_entries: int = 256
    """Resolved and opened plans that are kept."""

    # ---- data files without Spark ----
    append_file_bytes: int = 128 * _MB
    """Rows of one partition, by their size in memory, that an append makes one file of; Parquet takes a half to a tenth of it."""
    append_held_bytes: int = 256 * _MB
    """Rows that one append holds before it writes the largest partition's to a file."""
    stream_kept_bytes: int = 64 * _MB
    """So much of a stream is kept, in case that an append must stage it again."""
    stream_piece_bytes: int = 32 * _MB
    """A table is appended in pieces of about this size."""
    whole_object_bytes: int = 256 * _KB
    """Objects up to this size are read in one request: a footer alone costs one or two."""
    inline_vector_bytes: int = 1 * _KB
    """Serialized deletion vectors up to this size stand in the log; larger ones go to a file.  All readers take up to 65,535 characters."""
    open_tables: int = 64
    """Tables that `rowlock.append` and `rowlock.to_arrow` keep open."""

    # ---- the log ----
    changed_files: int = 2_048
    """Files changed since the last columnar snapshot that are kept one by one."""
    snapshot_chunk_files: int = 50_000
    """Files in one frame of a snapshot, and in one row group of a checkpoint."""
    replay_batch_bytes: int = 32 * _MB
    """Commits that are parsed at a time when a log is loaded."""
    quick_pass_files: int = 500
    """Files from which on skipping looks at bounds by column before it looks at each file."""
    backfill_files: int = 100_000
    """Files that get their row ids in one commit of a backfill."""
    group_files: int = 2_000
    """Files that the appends of one grouped version bring; the rest waits for the next."""

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

    def __repr__(self) -> str:
        lines = [f"    {f.name}={getattr(self, f.name):_}," + _in_units(f.name, getattr(self, f.name)) for f in fields(self)]
        return "\n".join(["Limits(", *lines, ")"])


def _in_units(name: str, value: int) -> str:
    """A comment that says a number of bytes in a unit that is easier to read."""
    if not name.endswith("_bytes") or value < _KB:
        return ""
    unit, word = (_GB, "GB") if value >= _GB else (_MB, "MB") if value >= _MB else (_KB, "KB")
    return f"  # {value / unit:.4g} {word}"


NAMES = tuple(f.name for f in fields(Limits))
_PORTIONS = ("sampled_rows", "snapshot_chunk_files", "backfill_files", "group_files")
"""What is worked on portion by portion: a portion holds one at least."""
_lock = threading.Lock()
_current: Limits | None = None


def limits() -> Limits:
    """The limits of this process as they are now.  Raises InvalidInput where the environment has a value or a name that is none."""
    global _current
    found = _current
    if found is None:
        with _lock:
            found = _current = _current or from_environment(os.environ)
    return found


def set_limits(base: Limits | None = None, /, **values: int) -> Limits:
    """Changes limits of this process, from the next look at them on; gives those of before, which `set_limits(before)` brings back.

    >>> import rowlock
    >>> before = rowlock.set_limits(driver_rows=1_000_000)
    >>> _ = rowlock.set_limits(before)

    Raises InvalidInput for an unknown name and for a value that is no such number; then nothing is changed.
    """
    global _current
    checked = {name: _checked(name, value, name) for name, value in values.items()}
    before = limits()
    with _lock:
        _current = replace(base if base is not None else before, **checked)
    return before


@contextmanager
def limited(**values: int) -> Iterator[Limits]:
    """Limits of the process inside a `with` block; those of before come back after it."""
    before = set_limits(**values)
    try:
        yield limits()
    finally:
        set_limits(before)


def from_environment(environment: Mapping[str, str]) -> Limits:
    """The machine's limits with those that ROWLOCK_LIMITS_<NAME> sets.  Raises InvalidInput."""
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
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        raise InvalidInput(f"There is no limit {where}" + (f"; did you mean {near[0]}?" if near else f". The limits are: {', '.join(NAMES)}"))
    least = 1 if name in _PORTIONS else 0
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"The limit {where} is a whole number of {name.rsplit('_', 1)[-1]}, {least} or more, not {value!r}")
    return value
