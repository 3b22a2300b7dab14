"""`python -m model.differential.record`: draws cases until they hold 200 statements, and writes them with delta-spark's answers into tests/data/differential.jsonl.

Each engine makes its own table. A case ends before its first difference that is not meant.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from model.differential.case import Case, from_json
from model.differential.compare import Difference, Meant, differences
from model.differential.runner import Asked, Process, ask_all
from model.differential.statements import draw_case

FILE = Path(__file__).parents[2] / "data" / "differential.jsonl"
STATEMENTS = 200
OF_ONE_CASE = 6
"""The first statements of each case, so that the record has many sessions and tables."""

Outcome = dict[str, Any]


def recorded() -> Iterator[tuple[Case, list[Outcome]]]:
    """The cases of the file, each with delta-spark's outcomes."""
    for line in FILE.read_text().splitlines():
        given = json.loads(line)
        yield from_json(given["case"]), given["outcomes"]


def outcomes(engines: Mapping[str, Asked], case: Case, root: Path) -> Iterator[dict[str, Outcome]]:
    """What engines make of a case, each by itself, statement by statement; nothing where one cannot make the table."""
    roots = {name: str(root / name) for name in engines}
    try:
        for settings, texts in (({"spark.sql.session.timeZone": "UTC"}, case.table), (case.settings, case.before)):
            opened = ask_all(
                engines, {n: {"open": 0, "settings": settings, "root": at, "before": [t.replace("{root}", at) for t in texts]} for n, at in roots.items()}
            )
            if any("error" in said for said in opened.values()):
                return
        if case.table:
            ask_all(engines, {name: {"attach": f"{roots[name]}/t"} for name in engines})
        for step in case.steps:
            yield ask_all(engines, {name: {"do": step.text} for name in engines})
    finally:
        shutil.rmtree(root, ignore_errors=True)


def first_difference(case: Case, pairs: Iterator[tuple[Outcome, Outcome]], meant: Meant) -> tuple[int, list[Outcome], list[tuple[Difference, str | None]]]:
    """How many statements can be kept, delta-spark's outcomes, and the differences found, each with the reason why it is meant.

    The statements end with the first difference after which the tables hold other things, or before the first that is not meant.
    """
    theirs: list[Outcome] = []
    found: list[tuple[Difference, str | None]] = []
    for step, (one, other) in zip(case.steps, pairs, strict=False):
        theirs.append(one)
        here = [(d, meant.reason(step, case.settings, d, case.table)) for d in differences(one, other)]
        found += here
        if any(reason is None for _, reason in here):
            return len(theirs) - 1, theirs, found
        if not all(d.is_slight for d, _ in here):
            break
    return len(theirs), theirs, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    seed = parser.parse_args().first
    folder = Path(tempfile.mkdtemp(prefix="differential-"))
    engines = {name: Process(name, folder) for name in ("delta-spark", "rowlock")}
    for engine in engines.values():
        engine.answer()
    lines, count, meant = [], 0, Meant()
    while count < STATEMENTS:
        case, _ = draw_case(seed)
        case = case.only(case.steps[:OF_ONE_CASE])
        kept, theirs, found = first_difference(case, ((o["delta-spark"], o["rowlock"]) for o in outcomes(engines, case, folder / "tables")), meant)
        if kept:
            lines.append(json.dumps({"case": case.only(case.steps[:kept]).as_json(), "outcomes": theirs[:kept]}))
            FILE.write_text("\n".join(lines) + "\n")
            count += kept
        notes = "".join(f"\n  {reason or d.text()}" for d, reason in found)
        print(f"{seed}: {kept} statements, {count} in all{notes}", flush=True)
        seed += 1
    for engine in engines.values():
        engine.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
