"""The processor time of each test file beside its budget, in tests/budgets.toml; in which order files run, and by which worker.

Files that take longest run first, so that no worker ends with one.
"""

from __future__ import annotations

import collections
import functools
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "budgets.toml"
HEAD = "# Seconds of a processor that each file of `make test` may take; files without a line: {rest}.  Written by `make test ARGS=--write-budgets`.\n\n"
REST = 5
MARGIN = 1.5


def budgets() -> dict[str, int]:
    """Seconds by file, of those that have more than the others."""
    return tomllib.loads(PAGE.read_text()) if PAGE.exists() else {}


def longest_first(items: list[pytest.Item]) -> None:
    """Sorts the items by the budgets of their scopes, within a scope by file, within a file as they were, whatever the order of the files was."""
    allowed = budgets()
    files = {item.nodeid.partition("::")[0] for item in items}
    of_scope = collections.Counter[str]()
    for file in files:
        of_scope[scope(file)] += allowed.get(file, 0)
    keys = {file: (-of_scope[scope(file)], scope(file), -allowed.get(file, 0), file) for file in files}
    items.sort(key=lambda item: keys[item.nodeid.partition("::")[0]])


@functools.cache
def scope(file: str) -> str:
    """What one worker runs as a whole: a file, or all files whose statements run in the process of `support.sql_session`, so that there is one of it."""
    source = PAGE.parents[1] / file
    return "sql sessions" if source.is_file() and "from support.sql_session import" in source.read_text() else file


@functools.cache
def takes_session(scope: str) -> bool:
    """Whether tests of a scope take the shared Spark session, which each worker that runs one starts and warms up for itself."""
    source = PAGE.parents[1] / scope
    return source.is_file() and re.search(r"[(,]\s*(spark|table_path)\s*[:,)]", source.read_text()) is not None


def processor_time() -> float:
    """Seconds of a processor that this process and its children, JVMs among them, took so far; of this process alone where there is no /proc."""
    try:
        ticks, children = _ticks()
    except OSError:
        return sum(os.times()[:4])
    found, todo = 0, [os.getpid()]
    while todo:
        process = todo.pop()
        found += ticks.get(process, 0)
        todo += children.get(process, [])
    return found / os.sysconf("SC_CLK_TCK")


def _ticks() -> tuple[dict[int, int], dict[int, list[int]]]:
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        ticks[process] = sum(int(n) for n in fields[11:15])  # its own, and those of its children that have ended
        children.setdefault(int(fields[1]), []).append(process)
    return ticks, children


class Spent:
    """A plugin that adds up the processor time of each file."""

    def __init__(self) -> None:
        self.of_file: dict[str, float] = {}
        self._before = 0.0

    def pytest_collection_finish(self) -> None:
        """What collecting all files took is none of the first one's."""
        self._before = processor_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        done = yield
        file = item.nodeid.partition("::")[0]
        if nextitem is None or nextitem.nodeid.partition("::")[0] != file:
            now = processor_time()
            self.of_file[file] = self.of_file.get(file, 0) + now - self._before
            self._before = now
        return done


def beyond(spent: Mapping[str, float]) -> list[str]:
    """One line for each file that took more than its budget."""
    allowed = budgets()
    over = sorted(((file, s, allowed.get(file, REST)) for file, s in spent.items() if s > allowed.get(file, REST)), key=lambda f: f[2] - f[1])
    return [f"{file}: {s:.0f} s of a processor, its budget is {most} s" for file, s, most in over]


def write(spent: Mapping[str, float]) -> None:
    """Writes the budgets anew from what each file took, with a margin."""
    lines = [f'"{file}" = {math.ceil(s * MARGIN)}\n' for file, s in sorted(spent.items(), key=lambda f: -f[1]) if s * MARGIN > REST]
    PAGE.write_text(HEAD.format(rest=REST) + "".join(lines))
