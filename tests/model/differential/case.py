"""A case: a session's settings, a table, and statements; as data, so that it can be kept, run again, and printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """A statement: SQL, SQL by `rowlock.sql` after `call:`, or Python after `py:`; {root} is the folder of an engine's tables.  `kind` is for the list of what is meant."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Case:
    """What one seed draws."""

    seed: int
    settings: dict[str, str]
    maker: str
    """Which engine makes the table before it is copied: `delta-spark` or `rowlock`."""
    table: tuple[str, ...]
    """The statements that make the table `t`."""
    before: tuple[str, ...]
    """The statements that each session runs first: temporary views."""
    steps: tuple[Step, ...]

    def only(self, steps: tuple[Step, ...]) -> Case:
        """The case with these steps alone."""
        return replace(self, steps=steps)

    def as_json(self) -> dict[str, Any]:
        """The case as JSON has it."""
        return asdict(self)


def from_json(given: dict[str, Any]) -> Case:
    """A case out of `as_json`."""
    steps = tuple(Step(**s) for s in given["steps"])
    return Case(given["seed"], given["settings"], given["maker"], tuple(given["table"]), tuple(given["before"]), steps)
