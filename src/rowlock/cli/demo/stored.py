"""Opens the load that was prepared in a work folder; each process of the demo does so."""

from __future__ import annotations

import json
from pathlib import Path

from rowlock.cli.demo.load import SPEC, Load
from rowlock.cli.demo.sales import Sales
from rowlock.cli.demo.staged import Staged


def open_load(work: Path) -> Load:
    """The load in a work folder."""
    spec = json.loads((work / SPEC).read_text())
    return Sales(rows=spec["rows"]) if spec["kind"] == "sales" else Staged.open(work, spec)
