"""Statements of SQL with what delta-spark made of each, as `tests/data/sql/delta_statements.txt` holds them.

    == scenario               statements that belong together; (soak) behind it leaves it to `make soak`
    a statement of SQL, or a Python expression after `py:`
      = rows as JSON          what delta-spark returns, sorted
      ! Name CONDITION        or what it raises: the exception's name and its error condition, where there is one
      ~ = rows | why          what Rowlock does otherwise (also `! Name`), and why

{root} is a folder of the run's own, {wh} that of the tables, whose schema is `s`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "data" / "sql" / "delta_statements.txt"
BEFORE = ("CREATE DATABASE s LOCATION '{root}/s'", "USE s")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A statement, what delta-spark said of it (`=` or `!`), and what Rowlock says otherwise, None where it is the same, and why."""

    text: str
    expected: str
    otherwise: str | None = None
    why: str = ""


def scenarios(file: Path = FILE) -> dict[str, list[Recorded]]:
    """The statements by the names of their scenarios."""
    found: dict[str, list[Recorded]] = {}
    for line in file.read_text().splitlines():
        if line.startswith("== "):
            found[line[3:]] = here = []
        elif line == "  =" or line.startswith(("  = ", "  ! ")):
            here[-1] = Recorded(here[-1].text, line[2:])
        elif line.startswith("  ~ "):
            otherwise, _, why = line[4:].rpartition(" | ")
            here[-1] = Recorded(here[-1].text, here[-1].expected, otherwise, why)
        elif line and not line.startswith("#"):
            here.append(Recorded(line, ""))
    return found


def placed(text: str, root: str) -> str:
    """A statement with the folders of a run in it."""
    return text.replace("{wh}", "{root}/s").replace("{root}", root)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return json.loads(json.dumps(value, default=str))


def by_content(rows: Any) -> Any:
    """Rows in an order that follows from them alone; other answers as they are."""
    return sorted(rows, key=lambda row: json.dumps(row, default=str)) if isinstance(rows, list) else rows


def difference(outcome: Mapping[str, Any], said: str, root: str) -> str | None:
    """How an outcome (its rows, or the names of its error's classes and its text) differs from what was recorded; None where it does not."""
    if said.startswith("= "):
        wanted = json.loads(placed(said[2:], root))
        same = "rows" in outcome and by_content(plain(outcome["rows"])) == by_content(wanted)
        return None if same else f"rows {wanted} were expected, and it was {_shown(outcome)}"
    name, _, condition = said[2:].partition(" ")
    raised: Sequence[str] = outcome.get("error", ())
    if name in raised or (condition and f"[{condition}" in outcome.get("text", "")):
        return None
    return f"{said[2:]} was expected, and it was {_shown(outcome)}"


def _shown(outcome: Mapping[str, Any]) -> str:
    return f"{outcome['rows']}" if "rows" in outcome else f"{outcome['error'][0]}: {outcome['text'][:300]}"


def differences(statements: Sequence[Recorded], outcomes: Sequence[Mapping[str, Any]], root: str, *, ours: bool) -> Iterator[str]:
    """What differs from what was recorded: of Rowlock (`ours`) or of delta-spark."""
    for statement, outcome in zip(statements, outcomes, strict=True):
        said = statement.otherwise if ours and statement.otherwise is not None else statement.expected
        if (found := difference(outcome, said, root)) is not None:
            yield f"{statement.text}\n    {found}"
