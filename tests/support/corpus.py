"""The tables and cases of others that tests read: tests/data, whose NOTICE names their origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

DATA = Path(__file__).resolve().parents[1] / "data"
GOLDEN = DATA / "golden"
VECTORS = DATA / "table-with-dv-small"
BITMAP = DATA / "roaring" / "portable_bitmap64.bin"
CONFLICT_CASES = DATA / "conflict_cases.json"


def golden_tables() -> list[dict[str, Any]]:
    """The index of the golden tables: name, newest version, protocol, number of files and of expected rows of each."""
    return list(orjson.loads((GOLDEN / "index.json").read_bytes())["tables"])


def conflict_cases() -> list[dict[str, Any]]:
    """The conflict cases of the other implementations."""
    return list(orjson.loads(CONFLICT_CASES.read_bytes())["cases"])
