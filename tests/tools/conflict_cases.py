"""Feeds the peers' conflict cases to the rules and says what came of each.

usage: conflict_cases.py FILE

FILE has the form of tests/data/conflict_cases.json.  A case that is for the rules (level `actions`, told in plain
actions) passes or fails; any other is skipped, with the test that covers it or the reason why there is
none, from tests/unit/conflict/cases_map.toml.  Where the peers differ, the line names Rowlock's
choice, and what it chose counts.  The exit code is 1 when a case failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("src", "tests")]

from rowlock.exceptions import RowlockError  # noqa: E402
from support import conflict_cases as cases  # noqa: E402

MAP = Path(__file__).resolve().parents[1] / "unit" / "conflict" / "cases_map.toml"


def read_map() -> dict[str, dict[str, Any]]:
    """Case id -> {tests = [...]} or {reason = "..."}."""
    return tomllib.loads(MAP.read_text())


def lines(all_cases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(passed, failed or skipped; the line) for each case."""
    elsewhere = read_map()
    for case in all_cases:
        if why := cases.unfit(case):
            entry = elsewhere.get(case["id"], {})
            where = ", ".join(entry.get("tests", ())) or entry.get("reason", why)
            yield "skipped", f"{case['id']}  skipped  {'see ' if entry.get('tests') else ''}{where}"
            continue
        try:
            verdict = cases.judge(case)
        except (RowlockError, KeyError, ValueError, TypeError, AttributeError) as error:
            yield "failed", f"{case['id']}  failed   {case.get('case', '')}: the case cannot be read: {error!r}"
            continue
        kind = "passed" if verdict.passed else "failed"
        chosen = f"  [chosen: {'; '.join(verdict.chosen)}]" if verdict.chosen else ""
        yield kind, f"{case['id']}  {kind}   expected {verdict.expected}, got {verdict.outcome}{chosen}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    content = json.loads(parser.parse_args().file.read_text())
    counts: Counter[str] = Counter()
    for kind, line in lines(content["cases"] if isinstance(content, dict) else content):
        counts[kind] += 1
        print(line)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
