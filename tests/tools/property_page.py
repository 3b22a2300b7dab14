"""Writes docs/properties.md from the list of Delta's properties in the code.

usage: property_page.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from rowlock.protocol.delta_properties import DELTA_PROPERTIES, DeltaProperty

PAGE = Path(__file__).resolve().parents[2] / "docs" / "properties.md"
HEAD = """# Table properties

Every table property of Delta, as of delta-spark 4.4, and those of other engines that tables carry. No property is accepted without effect: it does what
Delta says, or it cannot be set, or it has nothing to do here, for the reason given. This page is written by `make properties` from the list in the code.

Refusing is for setting a property through Rowlock. **A table of others that has one of the refused ones is read and written all the same**, without
what the property asks for, unless it needs a feature of the protocol that Rowlock does not write: that is refused by the feature's name.

Delta's names are taken in any letters, and stored as here; `rowlock.*` are described in [Transactions](transactions.md), [Locks](locks.md) and [Several tables](multi-table.md). Log cleanup runs after a checkpoint, whose
writer deletes at most 50 commits, or twice as many as lie between two checkpoints where that is more (`rowlock.set_limits(cleaned_files=...)`); older
ones follow after the next. It keeps the newest checkpoint that is older than the retention, so that every version within it can be built, and counts by midnights in UTC.
"""
TITLES = {"effect": "With their effect", "refused": "Cannot be set", "feature": "Refused by the name of a feature", "ignored": "Nothing to do"}
KINDS = {"boolean": "true, false", "integer": "whole number", "interval": "interval", "bytes": "bytes, also as `128mb`", "text": "text"}


def allowed(p: DeltaProperty) -> str:
    if p.treatment == "refused":
        return f"only {' or '.join(v or 'empty text' for v in p.only)}" if p.only else "none"
    return ", ".join(p.choices) or (f"whole number from {p.least}" if p.kind == "integer" else KINDS[p.kind])


def lines() -> Iterator[str]:
    yield HEAD
    for treatment, title in TITLES.items():
        yield f"## {title}\n\n| property | values | what Rowlock does |\n|---|---|---|"
        for p in DELTA_PROPERTIES.values():
            if p.treatment == treatment:
                yield f"| `{p.name}` | {allowed(p)} | {p.description} |"
        yield ""
    yield "`delta.feature.<name>` = `supported` lists a feature in the protocol, and `delta.constraints.<name>` is a CHECK constraint of a new table;"
    yield "for one that is there: `DeltaTable.addFeatureSupport` and `DeltaTable.addConstraint`."


def page() -> str:
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
