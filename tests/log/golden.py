"""Tables written by Spark, kept beside the repository; tests that need them skip where they are not."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
GOLDEN = CORPUS / "golden"

needs_corpus = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the golden tables are not at {GOLDEN}")


def tables() -> list[dict[str, object]]:
    index = GOLDEN / "index.json"
    return list(orjson.loads(index.read_bytes())["tables"]) if index.is_file() else []
