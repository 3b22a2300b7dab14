"""`python -m model.differential.record`: draws cases until they hold 200 statements, and writes them with delta-spark's answers into tests/data/differential.jsonl.

Each engine makes its own table. A case ends with its first difference that is meant, or before its first that is not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from model.differential.case import Case, from_json
from model.differential.compare import Difference, Meant, differences
from model.differential.runner import Process
from model.differential.statements import draw_case

FILE = Path(__file__).parents[2] / "data" / "differential.jsonl"
STATEMENTS = 200

Outcome = dict[str, Any]


def recorded() -> Iterator[tuple[Case, list[Outcome]]]:
    """The cases of the file, each with delta-spark's outcomes."""
    for line in FILE.read_text().splitlines():
        given = json.loads(line)
        yield from_json(given["case"]), given["outcomes"]


def outcomes(engine: Process, case: Case, root: Path) -> Iterator[Outcome]:
    """What an engine makes of a case by itself, statement by statement; nothing where it cannot make the table."""
    try:
        for settings, texts in (({"spark.sql.session.timeZone": "UTC"}, case.table), (case.settings, case.before)):
            engine.ask(open=case.seed, settings=settings, root=str(root), before=[t.replace("{root}", str(root)) for t in texts])
            if "error" in engine.answer():
                return
        if case.table:
            engine.ask(attach=str(root / "t"))
            engine.answer()
        for step in case.steps:
            engine.ask(do=step.text)
            yield engine.answer()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def unlike(case: Case, theirs: list[Outcome], ours: Iterator[Outcome], meant: Meant) -> Iterator[tuple[int, Difference, str | None]]:
    """The differences of the first statement that differs, each with the reason why it is meant; a case that ends early differs, too."""
    n = -1
    for n, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        found = list(differences(one, other))
        yield from ((n, d, meant.reason(case.steps[n], case.settings, d)) for d in found)
        if found:
            return
    if n + 1 < len(theirs):
        yield n + 1, Difference("the table", "made", "not made"), None


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
        theirs = list(outcomes(engines["delta-spark"], case, folder / "theirs"))
        found = list(unlike(case, theirs, outcomes(engines["rowlock"], case, folder / "ours"), meant)) if theirs else []
        kept = min((n if reason is None else n + 1 for n, _, reason in found), default=len(theirs))
        if kept:
            lines.append(json.dumps({"case": case.only(case.steps[:kept]).as_json(), "outcomes": theirs[:kept]}))
            count += kept
        print(f"{seed}: {kept} statements{''.join(f'; {d.aspect}: {reason}' for _, d, reason in found)}", flush=True)
        seed += 1
    FILE.write_text("\n".join(lines) + "\n")
    for engine in engines.values():
        engine.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
