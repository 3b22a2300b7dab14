"""What the house is built like, in figures: circles of imports, rooms and what they import, the way of a commit, sizes.

usage: structure.py [source folder]

Read from the syntax trees of src/rowlock, imports under TYPE_CHECKING and inside of functions included.  The way of a commit is followed while
an UPDATE that lost to another one commits, in memory: each function of the package that it enters, and each call of a function
whose module stands above the caller's (by the order of the layers and, inside of a layer, of who imports whom).
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from test_layers import RANK, docstring_lines  # noqa: E402 - the order of the layers is written down once


@dataclass
class Module:
    """A source file: its dotted name without the package, its tree, and the modules that it imports."""

    name: str
    path: Path
    tree: ast.Module
    imports: set[str] = field(default_factory=set)

    @property
    def room(self) -> str:
        return self.name.rsplit(".", 1)[0] if "." in self.name else ""

    @property
    def layer(self) -> int:
        return RANK.get(self.name.split(".")[0], RANK["rowlock"])


def modules(package: Path) -> dict[str, Module]:
    """All modules below a package's folder, by name."""
    found: dict[str, Module] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "rowlock"
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    for module in found.values():
        module.imports = {name for name in _imported(module.tree, found) if name != module.name}
    return found


def _imported(tree: ast.Module, known: dict[str, Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and (node.module == "rowlock" or node.module.startswith("rowlock.")):
            base = node.module.removeprefix("rowlock").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}" if base else alias.name
                if (name := full if full in known else base or "rowlock") in known:
                    yield name
        elif isinstance(node, ast.Import):
            yield from (n for alias in node.names if (n := alias.name.removeprefix("rowlock.")) in known)


def names_between(found: dict[str, Module], above: str, below: str) -> set[str]:
    """The names that the modules of one room import from another: `engines.spark.plan.Planner`; a module that is imported whole is one name."""
    nodes = [n for m in found.values() if f"{m.name}.".startswith(f"{above}.") for n in ast.walk(m.tree) if isinstance(n, ast.ImportFrom) and n.module]
    names = {f"{n.module}.{alias.name}".removeprefix("rowlock.") for n in nodes for alias in n.names}
    return {name for name in names if name.startswith(f"{below}.")}


def circles(found: dict[str, Module]) -> list[list[str]]:
    """The sets of modules that import each other, directly or through others; largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(found[name].imports):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                out.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for name in found:
        if name not in index:
            visit(name)
    return sorted(out, key=len, reverse=True)


def circles_of_rooms(found: dict[str, Module]) -> list[list[str]]:
    """The sets of neighbours (the files and folders of one folder, each folder taken as a whole) that import each other, directly or through others."""
    out: list[list[str]] = []
    for package in sorted({m.name.rsplit(".", n)[0] for m in found.values() for n in range(1, m.name.count(".") + 1)} | {""}):
        inside = f"{package}." if package else ""

        def neighbour(name: str, inside: str = inside) -> str | None:
            return inside + name.removeprefix(inside).split(".")[0] if name.startswith(inside) and name != "rowlock" else None

        rooms: dict[str, Module] = {}
        for module in found.values():
            if (room := neighbour(module.name)) is not None:
                whole = rooms.setdefault(room, Module(room, module.path, module.tree))
                whole.imports |= {other for o in module.imports if (other := neighbour(o)) is not None and other != room}
        out += circles(rooms)
    return out


def upward(found: dict[str, Module]) -> list[tuple[str, str]]:
    """Imports of a module that stands in a higher layer."""
    return [(m.name, other) for m in found.values() for other in sorted(m.imports) if found[other].layer > m.layer]


def heights(found: dict[str, Module]) -> dict[str, tuple[int, int]]:
    """Where a module stands: its layer, and inside of it the longest way down; modules of one circle stand side by side."""
    circle = {name: n for n, names in enumerate(circles(found)) for name in names}
    depth: dict[str, int] = {}

    def of(name: str, above: tuple[str, ...] = ()) -> int:
        if name in depth:
            return depth[name]
        below = [
            o for o in found[name].imports if found[o].layer == found[name].layer and o not in above and (name not in circle or circle.get(o) != circle[name])
        ]
        depth[name] = 1 + max((of(o, (*above, name)) for o in below), default=-1)
        return depth[name]

    return {name: (found[name].layer, of(name)) for name in found}


def way_of_a_commit(package: Path, found: dict[str, Module]) -> tuple[Counter[str], int, int]:
    """(functions entered with how often, calls of a function that stands above its caller, returns) while an UPDATE that lost once commits."""
    from model.schedules.in_memory import NO_LANE, InMemory
    from model.schedules.play import schema_string
    from rowlock_simulation.memory.sql.script import parse
    from rowlock_simulation.memory.statements import stage

    world = InMemory()
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"delta.enableDeletionVectors": "true"})
    world.run(parse("APPEND (1, 10), (2, 20)"))
    txn = stage(world.table, parse("UPDATE SET v = v + 1 WHERE k = 1"), NO_LANE)
    world.run(parse("UPDATE SET v = v + 1 WHERE k = 2"))
    entered: Counter[str] = Counter()
    at, stands = [0, 0], heights(found)

    def place(frame: FrameType | None) -> str | None:
        try:
            parts = Path(frame.f_code.co_filename).relative_to(package).with_suffix("").parts if frame is not None else ()
        except ValueError:
            return None
        return ".".join(parts) if parts else None

    def told(frame: FrameType, event: str, _: Any) -> None:
        here = place(frame)
        if here is None or frame.f_code.co_name.startswith("<"):
            return
        caller = place(frame.f_back)
        if event == "call":
            entered[f"{here}.{frame.f_code.co_qualname}"] += 1
            at[0] += caller is not None and stands[here] > stands[caller]
        elif event == "return" and caller is not None:
            at[1] += stands[caller] > stands[here]

    sys.setprofile(told)
    try:
        txn.commit("UPDATE")
    finally:
        sys.setprofile(None)
    return entered, at[0], at[1]


def statements(tree: ast.AST) -> int:
    """Statements that are not docstrings."""
    return sum(
        isinstance(n, ast.stmt) and not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, str))
        for n in ast.walk(tree)
    )


def main(say: Callable[[str], object] = print) -> None:
    package = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "src" / "rowlock"
    found = modules(package)
    round_ = circles(found)
    say(f"circles of imports: {len(round_)}")
    for names in round_:
        say(f"  {len(names)}: {', '.join(names)}")
    say(f"circles of neighbouring files and folders: {len(circles_of_rooms(found))}")
    for names in circles_of_rooms(found):
        say(f"  {len(names)}: {', '.join(names)}")
    say(f"imports of a higher layer: {len(upward(found))}")
    say("\nroom                          files  lines  imports inside  of others")
    for room in sorted({m.room for m in found.values()}):
        inside = [m for m in found.values() if m.room == room]
        own = sum(found[o].room == room for m in inside for o in m.imports)
        lines = sum(len(m.path.read_text(encoding="utf-8").splitlines()) for m in inside)
        say(f"{room or 'rowlock':<28} {len(inside):>6} {lines:>6} {own:>15} {sum(len(m.imports) for m in inside) - own:>10}")
    functions = [
        (n.end_lineno - n.lineno + 1 - docstring_lines(n), f"{m.name}.{n.name}")
        for m in found.values()
        for n in ast.walk(m.tree)
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.end_lineno
    ]
    say(f"\nmodules {len(found)}, functions {len(functions)}, statements {sum(statements(m.tree) for m in found.values())}")
    say(f"names of engines/spark that api imports: {len(names_between(found, 'api', 'engines.spark'))}")
    say(f"longest module {max((len(m.path.read_text(encoding='utf-8').splitlines()), m.name) for m in found.values())}, longest function {max(functions)}")
    entered, climbs, returns = way_of_a_commit(package, found)
    rooms = Counter(name.split(".")[0] for name in entered)
    say(
        f"\na commit that lost once enters {len(entered)} functions in {len({n.rsplit('.', 2)[0] for n in entered})} places; {climbs} calls and {returns} returns go up"
    )
    say("  " + ", ".join(f"{room} {n}" for room, n in rooms.most_common()))


if __name__ == "__main__":
    main()
