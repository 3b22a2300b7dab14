"""The plan of a seed in any world."""

from __future__ import annotations

from rowlock_simulation import draw
from rowlock_simulation.draw_calm import draw_calm
from rowlock_simulation.draw_tables import draw_tables
from rowlock_simulation.draw_wide import widened
from rowlock_simulation.plan import Plan, World

WORLDS: tuple[World, ...] = ("s3", "local", "dynamodb", "tables")


def plan_of(world: World, seed: int) -> Plan:
    """What a seed means in a world."""
    return widened(draw_tables(seed) if world == "tables" else draw_calm(world, seed) or draw.draw(world, seed))
