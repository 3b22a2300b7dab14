"""Writes the list in docs/tests.md: what `make test` leaves to `make soak`, and why, as the tests' own marks say it.

usage: long_forms.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "tests.md"
HEAD = "| test | what `make test` runs of it | why the rest is left to `make soak` |\n|---|---|---|\n"


def _mark(node: ast.AST) -> str | None:
    """`soak` or `short` where the node is a call of that mark."""
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called.removeprefix("pytest.mark.") if called in ("pytest.mark.soak", "pytest.mark.short") else None


def _text(node: ast.expr) -> str:
    return str(ast.literal_eval(node))


def of_test(test: ast.FunctionDef, named: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(what stays, why the rest does not) for each mark on a test; `named`: reasons of marks that the module gives a name."""
    for decorator in test.decorator_list:
        kind = _mark(decorator)
        if kind == "short" and isinstance(decorator, ast.Call):
            stays = ", ".join(f"`{_text(a)}`" for a in decorator.args) if len(decorator.args) <= 6 else f"{len(decorator.args)} sets of parameters"
            yield stays, next(_text(k.value) for k in decorator.keywords if k.arg == "why")
        elif kind == "soak" and isinstance(decorator, ast.Call):
            yield "nothing", _text(decorator.args[0])
        else:
            inner = [n for n in ast.walk(decorator) if _mark(n) == "soak" and isinstance(n, ast.Call)]
            reasons = {_text(n.args[0]) for n in inner} | {named[n.id] for n in ast.walk(decorator) if isinstance(n, ast.Name) and n.id in named}
            yield from (("a short form", why) for why in sorted(reasons))


def _of_module(body: list[ast.stmt]) -> str | None:
    """Why all tests of a module are long forms, where its `pytestmark` says so."""
    marks = (n.value for n in body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "pytestmark")
    return next((_text(n.args[0]) for m in marks for n in ast.walk(m) if isinstance(n, ast.Call) and _mark(n) == "soak"), None)


def lines() -> list[str]:
    found = []
    for file in sorted(TESTS.rglob("test_*.py")):
        body = ast.parse(file.read_text()).body
        named = {
            n.targets[0].id: _text(n.value.args[0])
            for n in body
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Call) and _mark(n.value) == "soak"
        }
        if whole := _of_module(body):
            found.append(f"| `{file.relative_to(TESTS)}` | nothing | {whole} |\n")
            continue
        for test in (n for n in body if isinstance(n, ast.FunctionDef)):
            place = f"`{file.relative_to(TESTS)}::{test.name}`"
            found += [f"| {place} | {stays.replace('|', '&#124;')} | {why} |\n" for stays, why in of_test(test, named)]
    return found


def page(text: str) -> str:
    """The page with its list written anew."""
    before, _, _ = text.partition(HEAD)
    return before + HEAD + "".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
