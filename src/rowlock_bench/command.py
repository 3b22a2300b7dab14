"""`rowlock bench`: measures, prints tables, and writes the pages of figures where that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rowlock_bench import harness, page

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "figures.jsonl"
"""The results that the pages are made of."""


def bench(console: Console, suites: Sequence[str], *, quick: bool, rounds: int, results: Path | None, seed: int) -> bool:
    """Measures the suites and prints their tables.  Returns whether all tables were right."""
    return page.show(console, harness.run(console, suites, quick=quick, rounds=rounds, results=results, seed=seed))


def write(console: Console) -> bool:
    """Makes the pages of the results that docs/figures.jsonl has.  Returns whether there are some."""
    found = harness.read(RESULTS)
    for path, text in page.files(ROOT, found).items() if found else ():
        path.write_text(text, encoding="utf-8")
        console.print(f"written: {path.relative_to(ROOT)}", highlight=False)
    if not found:
        console.print(f"There are no results: rowlock bench --results {RESULTS.relative_to(ROOT)}", highlight=False)
    return bool(found)
