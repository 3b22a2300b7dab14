"""Statements drawn from the grammar."""

from __future__ import annotations

from collections.abc import Callable

from model.differential.case import Case, Step
from model.differential.draw import Draw
from model.differential.settings import settings
from model.differential.statements_by_python import builder, stream, writer
from model.differential.statements_of_merge import merge
from model.differential.statements_of_rows import delete, insert, update
from model.differential.statements_of_tables import alter, create, query, upkeep
from model.differential.tables import Table, table

KINDS: tuple[tuple[str, Callable[[Draw, Table], str], float], ...] = (
    ("insert", insert, 6),
    ("update", update, 3),
    ("delete", delete, 2),
    ("merge", merge, 5),
    ("alter", alter, 3),
    ("create", create, 2),
    ("upkeep", upkeep, 2),
    ("query", query, 1.5),
    ("writer", writer, 4),
    ("builder", builder, 1),
    ("stream", stream, 0.7),
)
"""Kinds of statements, what draws one, and how often."""


def draw_case(seed: int, fixed: dict[str, int] | None = None) -> tuple[Case, dict[str, int]]:
    """The case of a seed, and the choices that made it."""
    draw = Draw(seed, fixed)
    chosen = settings(draw.within("settings"))
    target = table(draw.within("table"))
    made = tuple(target.statements)
    steps = []
    for n in range(draw.pick("statements", range(1, 25), range(1, 25))):
        at = draw.within(f"statement{n}")
        kind, one, _ = at.pick("kind", KINDS, [k[2] for k in KINDS])
        text = one(at.within(kind), target)
        steps.append(Step(f"call:{text}" if not text.startswith("py:") and at.maybe("by call", 0.12) else text, kind))
    maker = draw.pick("maker", ("delta-spark", "rowlock", "deltalake"), (3, 3, 1))
    return Case(seed, chosen, maker, made, (), tuple(steps)), draw.taken
