"""Starting actors and listening to them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.storage import LocalStore
from rowlock_simulation.memory.sql.script import Append

TESTS = Path(__file__).resolve().parents[2]


class Actor:
    """One process of actor.py."""

    def __init__(self, path: str | Path, *job: str) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": f"{TESTS.parent / 'src'}{os.pathsep}{TESTS}"}
        self.process = subprocess.Popen(
            [sys.executable, str(TESTS / "support" / "locks" / "actor.py"), str(path), *job], stdout=subprocess.PIPE, text=True, env=environment
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """kill -9"""
        self.process.kill()
        self.process.wait(30)


def make(path: Path, **properties: str) -> InMemory:
    """A table with the rows (1, 0) and (2, 0)."""
    world = InMemory(store=LocalStore(path))
    world.create(
        schema_string([("k", "long", True), ("v", "long", True)]),
        (),
        {f"rowlock.{k}": v for k, v in properties.items()} | {"delta.enableDeletionVectors": "true"},
    )
    world.run(Append(((1, 0), (2, 0))))
    return world


def values(world: InMemory) -> dict[int, int]:
    return {r["k"]: r["v"] for r in world.rows()}


def long_among_short(path: Path, turns: str, writers: int = 4, at_most_s: float = 60.0) -> tuple[list[str], int]:
    """What a long writer says at its end, and how many commits the short ones made; these stop when it is done, or after `at_most_s`."""
    make(path)
    short = [Actor(path, "short") for _ in range(writers)]
    actors = [*short, Actor(path, "long", turns)]
    try:
        assert [a.says() for a in actors] == ["READY"] * len(actors)
        with contextlib.suppress(subprocess.TimeoutExpired):
            actors[-1].process.wait(at_most_s)
        (path.parent / "stop").touch()
        said = actors[-1].says().split()
        return said, sum(int(a.says()) for a in short)
    finally:
        for actor in actors:
            actor.kill()
