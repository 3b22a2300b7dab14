"""The code that documents show, so that tests run what users copy."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def code_blocks(document: Path, language: str = "python", *, section: str | None = None) -> list[str]:
    """The fenced blocks of a language in a Markdown document, in order; with `section` those below that heading alone."""
    text = document.read_text(encoding="utf-8")
    if section is not None:
        below = re.search(rf"^(#+) {re.escape(section)}$(.*?)(?=^\1 |\Z)", text, re.MULTILINE | re.DOTALL)
        if below is None:
            raise AssertionError(f"{document.name} has no section {section!r}")
        text = below[2]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
