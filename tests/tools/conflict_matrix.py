"""Writes docs/conflict-matrix.md from docs/matrix.toml.

usage: conflict_matrix.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model.matrix.cells import LEVELS, POLICIES, actions, read

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conflict-matrix.md"
HEAD = f"""# What happens when two writers meet

A transaction is staged against one version of the table, and another commit lands first. This page says what comes of
the transaction. It is written by `make matrix` from [matrix.toml](matrix.toml), and every cell is a test (`tests/model/matrix/`).

- **ok**: it commits what it staged.
- **rebase**: it commits after the rows that the other commit concerned were looked at, and where necessary made, again.
- **nothing**: nothing was left for it to commit. **skipped**: the work is in the table already.
- Else it fails with the error of that name (`...Exception`).
- Three entries in one cell hold for the levels {", ".join(f"`{level}`" for level in LEVELS)}; one holds for all three.
- **open**: what is named must be built first.

All transactions start from two files, with rows 1 to 4 and rows 5 and 6; row 4 has been deleted.
"""
TITLES = {
    "repair": ("`rowlock.onConflict=repair`", "The default: what the other commit changed is worked in, and nothing fails that a later run would not."),
    "fail_row": ("`rowlock.onConflict=fail`, `rowlock.granularity=row`", "A conflict is a rebase that would change something other than places."),
    "fail_file": ("`rowlock.onConflict=fail`, `rowlock.granularity=file`", "The rules of open-source Delta."),
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def outcome(cell: dict[str, Any], policy: str) -> str:
    if "open" in cell:
        return "open"
    return cell[policy][0] if len(set(cell[policy])) == 1 else " / ".join(cell[policy])


def sections(matrix: dict[str, Any]) -> Iterator[str]:
    ours = [a for a in actions(matrix["ours"]) if not a.open]
    winners = [a for a in actions(matrix["winners"]) if not a.open]
    yield HEAD
    for policy in POLICIES:
        title, words = TITLES[policy]
        rows = [[f"**{w.title}**", *(outcome(matrix["cells"][t.key][w.key], policy) for t in ours)] for w in winners]
        header = ["first came, and ours is", *(t.title for t in ours)]
        yield f"## {title}\n\n{words}\n\n{table(header, rows)}\n"
    steps = [[f"**{a['title']}**", a["repair"], a["fail"]] for a in matrix["application"].values()]
    yield f"## Steps of applications\n\nOurs is a step of an application (`txn` with an appId) that appends.\n\n{table(['first came', 'repair', 'fail'], steps)}\n"
    statements = [[f"**{a.title}**", side, f"`{a.statement}`"] for side, list_ in (("ours", ours), ("first came", winners)) for a in list_]
    yield f"## The statements\n\n{table(['', '', 'statement in the tests'], statements)}\n"
    opened = [f"- {a.title}: {a.open}" for side in ("ours", "winners") for a in actions(matrix[side]) if a.open]
    names = {a.key: a.title for side in ("ours", "winners") for a in actions(matrix[side])}
    opened += [f"- {names[t]}, when {names[w]} came first: {cell['open']}" for t, row in matrix["cells"].items() for w, cell in row.items() if "open" in cell]
    yield "## Open\n\n" + "\n".join(opened) + "\n"


def page(matrix: dict[str, Any]) -> str:
    return "\n".join(sections(matrix))


if __name__ == "__main__":
    PAGE.write_text(page(read()))
    print(f"wrote {PAGE}")
