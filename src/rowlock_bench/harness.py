"""`rowlock bench`: runs suites of measurements, each in a process of its own, in random order, and keeps every result as a line of JSON."""

from __future__ import annotations

import datetime as dt
import os
import platform
import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from rowlock import clock, progress
from rowlock.exceptions import InvalidInput, RowlockError
from rowlock_bench.processes import measure
from rowlock_bench.suites import PACKAGES, SUITES

BUSY = 0.2
"""Processors that others use when a measurement begins, above which the machine counts as busy."""
_LOOKED_S = 1.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One engine in one case of a suite in one round.

    size                 the parameters of the suite's size
    busy                 processors that others used in the second before it began; None where the system does not say
    where                versions, machine and commit that it ran on
    figures, phases      by line; seconds by phase
    exact                whether the table was right at the end; `error` why there is no figure
    """

    suite: str
    case: str
    engine: str
    round: int
    size: dict[str, Any]
    busy: float | None
    at: str
    where: dict[str, str]
    figures: dict[str, float] = field(default_factory=dict)
    phases: dict[str, dict[str, float]] = field(default_factory=dict)
    exact: bool = False
    error: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is a measurement of; each is run once."""
        return self.suite, self.case, self.engine, self.round, orjson.dumps(self.size, option=orjson.OPT_SORT_KEYS)


def run(console: Console, names: Sequence[str], *, quick: bool, rounds: int, results: Path | None, seed: int) -> list[Measurement]:
    """Runs what of the suites `results` does not have yet, and adds it there; returns all measurements of these suites at this size.  Raises InvalidInput for an unknown suite."""
    if unknown := sorted(set(names) - set(SUITES)):
        raise InvalidInput(f"There is no suite {unknown[0]!r}; there are {', '.join(SUITES)}")
    for package in sorted({PACKAGES[e] for s in names or SUITES for e in SUITES[s].engines if e in PACKAGES and not find_spec(PACKAGES[e])}):
        console.print(f"What needs the package {package} is not measured: it is not installed.", soft_wrap=True)
    kept = [m for m in read(results) if m.suite in SUITES] if results else []
    found = {m.key: m for m in kept}
    wanted = list(_wanted(names or tuple(SUITES), quick, rounds, seed))
    todo = [m for m in wanted if m.key not in found]
    with progress.work("BENCH", str(results or "")):
        for n, planned in enumerate(todo):
            progress.count(n, len(todo), f"measurements: {planned.suite}, {planned.case or 'all'}, {planned.engine}")
            done = _measured(planned)
            found[done.key] = done
            if results:
                with results.open("ab") as file:
                    file.write(orjson.dumps(asdict(done)) + b"\n")
            if done.error or not done.exact:
                console.print(f"{done.suite} {done.case} {done.engine}: {done.error or 'the table was wrong at the end'}", style="red", soft_wrap=True)
    return [found[m.key] for m in wanted]


def read(results: Path) -> list[Measurement]:
    """The measurements that a file of results holds; none where there is no file."""
    return [Measurement(**orjson.loads(line)) for line in results.read_bytes().splitlines()] if results.exists() else []


def _wanted(names: Iterable[str], quick: bool, rounds: int, seed: int) -> Iterator[Measurement]:
    """The measurements in the order in which they run: round by round, the cases in random order, the engines of a case one after the other in random order."""
    dice = random.Random(seed)
    where = {k: v for k, v in _where().items() if v}
    for number in range(rounds):
        cases = [(name, case) for name in names for case in SUITES[name].cases]
        dice.shuffle(cases)
        for name, case in cases:
            suite = SUITES[name]
            engines = [e for e in suite.engines if e not in PACKAGES or find_spec(PACKAGES[e])]
            dice.shuffle(engines)
            for engine in engines:
                size = orjson.loads(orjson.dumps(dict(suite.quick if quick else suite.full)))
                yield Measurement(name, case, engine, number, size, None, "", where)


def _measured(planned: Measurement) -> Measurement:
    suite = SUITES[planned.suite]
    started = asdict(planned) | {"busy": _busy(), "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}
    try:
        found = measure(suite.module, {"engine": planned.engine, **planned.size, **suite.cases[planned.case]})
    except RowlockError as e:
        return Measurement(**{**started, "error": str(e)})
    return Measurement(**{**started, **found})


def _busy() -> float | None:
    """Processors that are in use, over one second; None where the system does not say (it must be Linux)."""
    try:
        before = _ticks()
        clock.sleep(_LOOKED_S)
        spent = [after - first for after, first in zip(_ticks(), before, strict=True)]
    except OSError:
        return None
    return round((1 - sum(spent[3:5]) / max(1, sum(spent))) * (os.cpu_count() or 1), 2)  # the fourth is idle, the fifth waits for disks


def _ticks() -> list[int]:
    """Ticks of all processors by what they were spent on."""
    return [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def _where() -> dict[str, str]:
    packages = {name: version(name) for name in ("rowlock", "pyspark", "delta-spark", "deltalake", "pyarrow") if find_spec(name.replace("-spark", ""))}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"commit": commit, "Python": platform.python_version(), **packages, "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB"}
