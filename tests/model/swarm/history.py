"""A case of a seed: its table, the rows that are there first, and who writes what before whom."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from model.swarm.axes import draw, rng_of
from model.swarm.names import name_columns
from model.swarm.statements import Expr, Step
from model.swarm.values import KINDS, array, some


@dataclass
class Table:
    """What a case's table is.  Roles are the columns' names in the model; `names` what they are called in the table."""

    roles: dict[str, str]
    partition: tuple[str, ...]
    names: dict[str, str]
    properties: dict[str, str]
    generated: dict[str, Expr] = field(default_factory=dict)
    checks: list[Expr] = field(default_factory=list)
    not_null: tuple[str, ...] = ()
    pools: dict[str, list[Any]] = field(default_factory=dict)
    twins: bool = False
    """Whether other engines' files have the columns' names in capitals."""

    @property
    def given(self) -> dict[str, str]:
        """The columns that rows bring."""
        return {role: kind for role, kind in self.roles.items() if role not in self.generated and role != "extra"}

    def rows(self, rng: random.Random, count: int, first: int) -> pa.Table:
        """So many rows, whose `rid` go up from `first`."""
        columns = {}
        for role, kind in self.given.items():
            values = [first + n for n in range(count)] if role == "rid" else [rng.choice(self.pools[role]) for _ in range(count)]
            columns[role] = array(KINDS[kind], values)
        return pa.table(columns)


@dataclass
class Contest:
    """A program, and the winners that commit when it is staged (round 0) and right before its puts."""

    program: list[Step]
    rounds: list[list[Step]]


@dataclass
class Case:
    seed: int
    axes: dict[str, str]
    table: Table
    files: list[pa.Table]
    earlier: list[pa.Table] | None
    before: list[Step]
    contests: list[Contest]


def case_of(seed: int) -> Case:
    """The case of a seed, always the same."""
    from model.swarm.programs import Programs

    axes, rng = _settled(draw(seed)), rng_of(seed)
    table = _table(axes, rng)
    count = {"one": 1, "two": 2, "three": 3, "six": 6}[axes["files"]]
    size = max(3, 12 // count)
    first, files = 1, []
    for _ in range(count):
        files.append(table.rows(rng, size, first))
        first += size
    earlier = (
        [table.rows(rng, f.num_rows, 500 + 50 * n) for n, f in enumerate(files[: 6 if axes["origin"] == "converted" else 1])]
        if axes["made again"] == "yes"
        else None
    )
    programs = Programs(table, axes, rng)
    before = [programs.step("delete", few=True), programs.step(rng.choice(("update", "merge")))]
    contests = [
        programs.contest(axes["loser"], axes["winner"], axes["round"]),
        programs.contest(axes["other loser"], rng.choice(("update", "delete", "append")), rng.choice(("staged", "before_put")), alone=True),
    ]
    return Case(seed, axes, table, files, earlier, before, contests)


def _settled(axes: dict[str, str]) -> dict[str, str]:
    """Without combinations that no table can have: what gives way is the value that other cases have as well."""
    a = dict(axes)
    if a["winner"] == "rename column":
        a |= {"mapping": "name" if a["mapping"] == "none" else a["mapping"], "origin": "arrow append" if a["origin"] == "by hand" else a["origin"]}
    if a["names"] == "spaces":
        a |= {"mapping": "name" if a["mapping"] == "none" else a["mapping"], "origin": "arrow append" if a["origin"] == "by hand" else a["origin"]}
    if a["names"] == "twins":
        a |= {"mapping": "none" if a["winner"] != "rename column" else a["mapping"]}
    if a["mapping"] != "none" and a["origin"] in ("converted", "by hand", "by deltalake"):
        a["origin"] = {"by deltalake": "arrow append", "by hand": "by hand", "converted": "spark write"}[a["origin"]]
    if a["origin"] == "by hand":
        a |= {"partition": "none", "mapping": "none", "tracking": "off", "constraint": "off", "generated": "off"}
    if a["partition"] != "none" and a["files"] == "six":
        a["files"] = "three"
    if a["origin"] == "converted":
        a |= {"partition": "none", "generated": "off", "constraint": "off" if a["constraint"] == "not null" else a["constraint"]}
    if a["origin"] == "by deltalake" and a["partition"] == "binary":
        a["origin"] = "arrow append"  # delta-rs writes the bytes as escapes, which delta-spark reads as they stand there
    if a["origin"] in ("by hand", "by deltalake") and a["tracking"] == "on":
        a["origin"] = "arrow append"
    if a["origin"] == "spark write" and a["files"] == "six":
        a["origin"] = "arrow append"
    if a["type of x"] in ("struct", "array", "map") and a["type of y"] in ("array", "map"):
        a["type of y"] = "string"
    return a


def _table(axes: Mapping[str, str], rng: random.Random) -> Table:
    roles = {"rid": "long", "k": "long", "v": "long", "s": "string", "x": axes["type of x"], "y": axes["type of y"]}
    if axes["nested"] == "on":
        roles["st"] = "struct"
    partition: tuple[str, ...] = ()
    if axes["partition"] == "two":
        roles, partition = roles | {"p": "string", "p2": "timestamp"}, ("p", "p2")
    elif axes["partition"] != "none":
        roles, partition = roles | {"p": axes["partition"]}, ("p",)
    generated: dict[str, Expr] = {}
    if axes["generated"] == "on":
        if axes["oracle"] == "spark" and axes["type of x"] == "timestamp":
            roles["g"], generated["g"] = "date", Expr("CAST({x} AS DATE)", equal=False)
        else:
            roles["g"], generated["g"] = "long", Expr("{k} * 2")
    order = [r for r in roles if r != "g"]
    rng.shuffle(order)
    roles = {r: roles[r] for r in [*order, *generated]}
    properties = {"delta.enableDeletionVectors": "false" if axes["vectors"] == "off" else "true"}
    properties |= {
        "rowlock.groupCommit": "false"
    }  # a version is one transaction here, so that serial execution has an order; tests/unit/transaction/group_commit has groups
    properties |= {"delta.enableRowTracking": "true"} if axes["tracking"] == "on" else {}
    properties |= {"delta.enableChangeDataFeed": "true"} if axes["feed"] == "on" else {}
    properties |= {"delta.columnMapping.mode": axes["mapping"]} if axes["mapping"] != "none" else {}
    properties |= {"delta.checkpointInterval": "2"} if axes["checkpoints"] == "each 2" else {}
    table = Table(roles, partition, name_columns(axes["names"], roles, partition), properties, generated)
    table.twins = axes["names"] == "twins"
    table.checks = [Expr("{v} IS NULL OR {v} < 100")] if axes["constraint"] == "check" else []
    table.not_null = ("k",) if axes["constraint"] == "not null" else ()
    for role, kind in roles.items():
        if role == "k":
            table.pools[role] = [0, 1, 2, 3, 4, 5] + ([] if table.not_null else [None])
        elif role == "v":
            table.pools[role] = [*range(10), None]
        elif role != "rid":
            table.pools[role] = some(rng, kind, 2 if role in ("p", "p2") else 5, partition=role in partition)
    return table
