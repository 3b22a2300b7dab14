"""Where the tables that Spark wrote are: beside the repository.  Tests that need them skip where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
GOLDEN = CORPUS / "golden"
VECTORS = CORPUS / "dv" / "table-with-dv-small"

needs_corpus = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the golden tables are not at {GOLDEN}")


def golden_tables() -> list[dict[str, Any]]:
    """The index of the golden tables; empty where they are not."""
    index = GOLDEN / "index.json"
    return list(orjson.loads(index.read_bytes())["tables"]) if index.is_file() else []
