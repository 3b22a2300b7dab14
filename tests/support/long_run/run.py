"""Starts the processes of a long run, watches them, and compares what is left with what was acknowledged."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

import rowlock
from rowlock.api.append import opened
from support.long_run.table import ACCOUNTS, LAYOUTS, START, create, expected

_TESTS = Path(__file__).resolve().parents[2]
_DAY_S = 86_400
KINDS = [("statements", 0, 0.0), ("statements", 1, 0.0), ("append", 0, 0.2), ("append", 1, 0.2), ("append", 2, 0.2), ("upkeep", 0, 4.0)]
"""The six processes: kind, number, and seconds between two of its commits."""


@dataclass(frozen=True)
class Sample:
    """What lay in the table's folder at one version: files in the log, its oldest commit, files of rows (named by this version, and on disk), their bytes, and
    the resident memory of the largest appender and the largest process of Python with Spark, in MB."""

    seconds: int
    version: int
    log_files: int
    oldest: int
    live_files: int
    data_files: int
    mb: float
    appender_mb: int
    spark_mb: int


@dataclass(frozen=True)
class Outcome:
    """What came of a long run: samples, acknowledged commits by kind and the seconds of the longest, reads of old versions, and all that was wrong."""

    samples: list[Sample]
    acknowledged: Counter[str]
    longest: dict[str, float]
    reads: int
    old_reads: int
    problems: list[str]


def long_run(path: str, commits: int, retention_s: int, report: Callable[[Sample], None], samples: int = 10, layout: str = "plain") -> Outcome:
    """Runs all until the table has so many versions, and each process has made five or more of them."""
    create(path, LAYOUTS[layout], retention_s)
    problems: list[str] = []
    with _running(path, layout) as workers:
        watched = _watch(path, commits, retention_s, report, samples, workers, problems)
    lines = [json.loads(line) for _, out, _ in workers for line in Path(out).read_text().splitlines()]
    there = Counter(zip(*(c.to_pylist() for c in rowlock.to_arrow(path, columns=["id", "owner", "n", "x"]).columns), strict=True))
    wanted = expected(lines)
    problems += [f"row {row}: {there[row]} times, not {wanted[row]}" for row in list((there - wanted) + (wanted - there))[:10]]
    kept = [line["version"] is not None for line in lines if "kept" in line]
    problems += [f"of {len(kept)} OPTIMIZEs only {sum(kept)} made a version"] if sum(kept) * 2 < len(kept) else []
    problems += [f"{log} is older than twice the retention" for log, seconds in _ages(Path(path, "_delta_log")) if seconds > _DAY_S + 2 * retention_s]
    found, reads, old_reads = watched
    longest: dict[str, float] = {}
    for line in lines:
        kind = next(iter(line))
        longest[kind] = max(longest.get(kind, 0.0), line["seconds"])
    return Outcome(found, Counter(next(iter(line)) for line in lines), longest, reads, old_reads, problems)


@contextmanager
def _running(path: str, layout: str) -> Iterator[list[tuple[subprocess.Popen[bytes], str, str]]]:
    """The processes, with the files of what they print; at the end they are told to stop, and what does not within two minutes is killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_TESTS.parent / "src"), str(_TESTS)])}
    workers = []
    for kind, number, pause in KINDS:
        names = f"{path}.{kind}-{number}.out", f"{path}.{kind}-{number}.err"
        with open(names[0], "wb") as out, open(names[1], "wb") as err:
            command = [sys.executable, "-m", "support.long_run.worker", kind, str(number), path, str(pause), layout]
            workers.append((subprocess.Popen(command, stdout=out, stderr=err, env=environment), *names))
    try:
        yield workers
    finally:
        Path(f"{path}.stop").touch()
        for process, _, _ in workers:
            try:
                process.wait(120)
            finally:
                process.kill()


def _watch(
    path: str,
    commits: int,
    retention_s: int,
    report: Callable[[Sample], None],
    samples: int,
    workers: list[tuple[subprocess.Popen[bytes], str, str]],
    problems: list[str],
) -> tuple[list[Sample], int, int]:
    """Reads the newest version and one of half the retention ago, again and again.  Returns samples, reads, and reads of old versions."""
    began, state, seen, found = time.monotonic(), opened(path), deque[tuple[float, int, str]](), []
    reads = old_reads = 0
    while ((version := state.refresh().version) < commits or not all(Path(out).read_bytes().count(b"\n") > 4 for _, out, _ in workers)) and not problems:
        rows = rowlock.to_arrow(path, version=version)
        problems += _wrong(rows, version)
        seen.append((time.monotonic(), version, _digest(rows)))
        reads += 1
        while seen and time.monotonic() - seen[0][0] > retention_s / 2:
            _, old, digest = seen.popleft()
            problems += [] if _digest(rowlock.to_arrow(path, version=old)) == digest else [f"version {old} has other rows than before"]
            old_reads += 1
        if not Path(f"{path}.go").exists() and all(
            Path(out).stat().st_size for (_, out, _), (kind, _, _) in zip(workers, KINDS, strict=True) if kind != "append"
        ):
            Path(f"{path}.go").touch()
        if len(found) < samples and version >= len(found) * commits / samples:
            found.append(_sample(path, round(time.monotonic() - began), workers))
            report(found[-1])
        _age(Path(path, "_delta_log"), retention_s)
        problems += [f"{err}: {Path(err).read_text()[-2000:]}" for process, _, err in workers if process.poll() is not None]
        time.sleep(0.5)
    found.append(_sample(path, round(time.monotonic() - began), workers))
    report(found[-1])
    return found, reads, old_reads


def _wrong(rows: pa.Table, version: int) -> list[str]:
    """What is wrong with the rows of one version: money that is not there, a gap in what one process appended."""
    frame, wrong = pl.DataFrame(rows), []
    accounts = frame.filter(pl.col("owner") == "account")
    if (len(accounts), accounts["x"].sum()) != (ACCOUNTS, ACCOUNTS * START):
        wrong.append(f"version {version}: {len(accounts)} accounts with {accounts['x'].sum()}")
    for (owner,), part in frame.filter(pl.col("owner").str.starts_with("appender-")).group_by("owner"):
        stay = part.filter(pl.col("n") % 10 != 7)["n"].sort().to_list()
        if stay != [n for n in range(max(stay) + 1) if n % 10 != 7 for _ in range(3)]:
            wrong.append(f"version {version}: {owner} has gaps")
    return wrong


def _digest(rows: pa.Table) -> str:
    return hashlib.sha256(pl.DataFrame(rows.select(["id", "owner", "n", "x"])).sort(pl.all()).write_csv().encode()).hexdigest()


def _sample(path: str, seconds: int, workers: list[tuple[subprocess.Popen[bytes], str, str]]) -> Sample:
    log, files = list(Path(path, "_delta_log").iterdir()), [f for f in Path(path).rglob("*.parquet") if "_delta_log" not in f.parts]
    snapshot = opened(path).refresh()
    held = [_resident_mb(process.pid) for process, _, _ in workers]
    without = [mb for mb, (kind, _, _) in zip(held, KINDS, strict=True) if kind == "append"]
    spark = [mb for mb, (kind, _, _) in zip(held, KINDS, strict=True) if kind != "append"]
    oldest = min(int(f.name[:20]) for f in log if f.suffix == ".json" and f.name[:20].isdigit())
    size = sum(_size(f) for f in files) / 1e6
    return Sample(seconds, snapshot.version, len(log), oldest, len(snapshot.files), len(files), round(size, 1), max(without), max(spark))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # VACUUM was here
        return 0


def _resident_mb(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _age(folder: Path, retention_s: float) -> None:
    """Makes files of the log that are older than the retention a day older: a cleanup deletes what was written before midnight."""
    for name, seconds in _ages(folder):
        if retention_s < seconds < _DAY_S:
            with contextlib.suppress(FileNotFoundError):  # a cleanup was here
                os.utime(folder / name, times=(time.time() - seconds - _DAY_S,) * 2)


def _ages(folder: Path) -> list[tuple[str, float]]:
    """Commits and checkpoints in a log, and how many seconds ago they were written."""
    out = []
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if file.name[:20].isdigit():
                out.append((file.name, time.time() - file.stat().st_mtime))
    return out
