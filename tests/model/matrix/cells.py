"""docs/matrix.toml read: what T does, what W does, and what comes of it under each setting.

The file makes the tests (test_matrix.py) and the page docs/conflict-matrix.md (tests/tools/conflict_matrix.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.schedules.schedule import Schedule, parse_schedule
from rowlock import exceptions

FILE = Path(__file__).resolve().parents[3] / "docs" / "matrix.toml"
LEVELS = ("serializable", "write_serializable", "snapshot")
POLICIES = {"repair": ("repair", "row"), "fail_row": ("fail", "row"), "fail_file": ("fail", "file")}


@dataclass(frozen=True)
class Action:
    """Something that T or W does. `open`: what must be built before it can be tested."""

    key: str
    title: str
    statement: str
    open: str = ""


@dataclass(frozen=True)
class Cell:
    """One place of the matrix. `outcome`: ok, rebase, nothing, or the error without `Exception`."""

    ours: Action
    winner: Action
    isolation: str
    policy: str
    granularity: str
    outcome: str
    start: str

    @property
    def name(self) -> str:
        return f"{self.ours.key}-{self.winner.key}-{self.policy}-{self.granularity}-{self.isolation}"

    def schedule(self) -> Schedule:
        end = f"{self.outcome}Exception" if hasattr(exceptions, f"{self.outcome}Exception") else self.outcome
        knobs = {"onConflict": self.policy, "granularity": self.granularity, "isolation": self.isolation}
        properties = [f"property: rowlock.{k} = {v}" for k, v in knobs.items()]
        lines = [self.start.strip(), *properties, f"T begins {self.ours.statement}", f"W commits {self.winner.statement}", f"T ends {end}"]
        return parse_schedule(self.name, "\n".join(lines))


def read() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text())


def actions(raw: dict[str, Any]) -> list[Action]:
    return [Action(key, v["title"], v.get("statement", ""), v.get("open", "")) for key, v in raw.items()]


def cells(matrix: dict[str, Any]) -> Iterator[Cell]:
    """Every cell that is not open."""
    winners = {a.key: a for a in actions(matrix["winners"])}
    for ours in actions(matrix["ours"]):
        for winner, outcomes in matrix["cells"].get(ours.key, {}).items():
            for name, (policy, granularity) in POLICIES.items() if "open" not in outcomes else ():
                for isolation, outcome in zip(LEVELS, outcomes[name], strict=True):
                    yield Cell(ours, winners[winner], isolation, policy, granularity, outcome, matrix["start"])
