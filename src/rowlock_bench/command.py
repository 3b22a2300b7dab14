"""`rowlock bench`: measures, prints tables, and writes the pages of figures where that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rowlock_bench import harness, page

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "figures.jsonl"
"""The results that the pages are made of."""


def bench(console: Console, suites: Sequence[str], *, quick: bool, rounds: int, results: Path | None, seed: int, write: bool) -> bool:
    """Measures the suites and prints their tables; with `write` makes the pages of all results that docs/figures.jsonl has.  Returns whether all tables were right."""
    found = harness.run(console, suites, quick=quick, rounds=rounds, results=RESULTS if write else results, seed=seed)
    is_right = page.show(console, found)
    if write:
        for path, text in page.files(ROOT, harness.read(RESULTS)).items():
            path.write_text(text, encoding="utf-8")
            console.print(f"written: {path.relative_to(ROOT)}", highlight=False)
    return is_right
