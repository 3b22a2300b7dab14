"""The shape of src/rowlock, checked on its syntax trees; nothing is imported.

- Layers are one-way: each package imports only from those before it in LAYERS, wherever the import stands.
- Engines stand side by side: none imports another.
- Only engines/spark/ imports pyspark and py4j; only storage/ imports object-store clients; only cli/ may look for the simulation and the benchmarks, which the wheel has not.
- protocol/, conflict/ and what advice/ computes do no I/O and know no clock.
- Modules and functions stay small.  TOO_LONG may list what is over the limit today; an entry that is no longer
  needed fails, so the list only shrinks.

Each rule is shown to fail on a made-up tree that breaks it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "rowlock"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("conditions",),
    ("clock", "display", "exceptions", "threads", "time_zones", "version"),
    ("extras",),
    ("arguments", "progress"),
    ("limits",),
    ("caches",),
    ("protocol",),
    ("storage",),
    ("log",),
    ("conflict",),
    ("locks",),
    ("boundary",),
    ("advice",),
    ("parquet",),
    ("transaction",),
    ("engines",),
    ("maintenance",),
    ("testing",),
    ("api",),
    ("tables", "streaming", "telemetry"),
    ("as_delta",),
    ("rowlock",),  # the package's own __init__: the face
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

ONLY_IN = {
    "cli": {"rowlock_bench", "rowlock_simulation"},
    "engines/spark": {"pyspark", "py4j"},
    "storage": {"obstore", "boto3", "botocore", "psycopg", "s3fs", "gcsfs", "adlfs", "fsspec", "google", "azure", "deltalake", "pyarrow.fs"},
}
PURE = ("protocol", "conflict", *(f"advice/{name}.py" for name in ("advice", "costs", "history", "keys", "timeline")))
NO_IO_MODULES = {
    "os", "shutil", "tempfile", "glob", "socket", "subprocess", "time", "random", "secrets", "threading", "multiprocessing", "asyncio",
    "urllib.request", "http", "requests", "sqlite3", "rowlock.clock", "rowlock.limits", "rowlock.caches", "rowlock.storage", "rowlock.log.table_log", "pyarrow.fs", "pyarrow.dataset",
}  # fmt: skip
NO_IO_NAMES = {"pathlib.Path", "pathlib.PosixPath", "io.open", "io.FileIO", "datetime.datetime.now", "uuid.uuid4", "uuid.uuid1"}
NO_IO_CALLS = {"open", "print", "input"}
NO_IO_METHODS = {"read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "scan_parquet", "scan_csv", "now", "utcnow", "uuid4"}

MAX_MODULE_LINES = 450
MAX_FUNCTION_LINES = 60
TOO_LONG: dict[str, int] = {}  # "transaction/commit.py" or "transaction/commit.py:publish" -> lines today


def layer_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return "rowlock" if parts == ("__init__",) else parts[0]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@functools.cache
def imports_of(tree: ast.AST) -> tuple[tuple[int, str], ...]:
    """Every imported module, and each name out of it, dotted: `from a.b import c` gives a.b and a.b.c."""
    return tuple(_imports(tree))


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def within(name: str, modules: set[str]) -> bool:
    return any(name == m or name.startswith(m + ".") for m in modules)


def wrong_layers(path: Path, root: Path, tree: ast.AST) -> Iterator[str]:
    mine = layer_of(path, root)
    if mine not in RANK:
        yield f"{path.relative_to(root)}: {mine} is in no layer; LAYERS and ARCHITECTURE.md name them"
        return
    for line, name in imports_of(tree):
        parts = name.split(".")
        if parts[0] != "rowlock":
            continue
        theirs = parts[1] if len(parts) > 1 and parts[1] in RANK else "rowlock"
        if name == "rowlock" and any(n.startswith("rowlock.") and n.split(".")[1] in RANK for at, n in imports_of(tree) if at == line):
            continue  # `from rowlock import clock` is an import of clock
        if theirs != mine and RANK[theirs] >= RANK[mine]:
            yield f"{path.relative_to(root)}:{line}: {mine} must not import {name}: it is not above it"


def is_in(path: Path, root: Path, place: str) -> bool:
    """Whether a file is `place`, or lies in it."""
    return f"{path.relative_to(root).as_posix()}/".startswith(f"{place}/")


def wrong_neighbours(path: Path, root: Path, tree: ast.AST) -> Iterator[str]:
    parts = path.relative_to(root).parts
    if parts[0] == "engines" and len(parts) > 2:
        others = {f"rowlock.engines.{p.name}" for p in (root / "engines").iterdir() if p.is_dir()} - {f"rowlock.engines.{parts[1]}"}
        yield from (f"{path.relative_to(root)}:{line}: an engine must not import another, {name}" for line, name in imports_of(tree) if within(name, others))


def wrong_outsiders(path: Path, root: Path, tree: ast.AST) -> Iterator[str]:
    for owner, modules in ONLY_IN.items():
        if not is_in(path, root, owner):
            yield from (f"{path.relative_to(root)}:{line}: only {owner}/ may import {name}" for line, name in imports_of(tree) if within(name, modules))


def impure(path: Path, root: Path, tree: ast.AST) -> Iterator[str]:
    mine = next((place for place in PURE if is_in(path, root, place)), None)
    if mine is None:
        return
    for line, name in imports_of(tree):
        if within(name, NO_IO_MODULES) or name in NO_IO_NAMES:
            yield f"{path.relative_to(root)}:{line}: {mine} is pure and must not import {name}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called in NO_IO_CALLS or method in NO_IO_METHODS:
            yield f"{path.relative_to(root)}:{node.lineno}: {mine} is pure and must not call {called or method}()"


def lengths(path: Path, root: Path, tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    """(what, its lines, the limit) for the module and each of its functions; a function's docstring is no part of it."""
    where = path.relative_to(root).as_posix()
    yield where, len(path.read_text().splitlines()), MAX_MODULE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield f"{where}:{node.name}", node.end_lineno - node.lineno + 1 - docstring_lines(node), MAX_FUNCTION_LINES


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function's docstring takes: that of a public one has a fixed form, and may be longer than the function."""
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) is not None else 0


def too_long(path: Path, root: Path, tree: ast.AST) -> Iterator[str]:
    for what, lines, limit in lengths(path, root, tree):
        if lines > max(limit, TOO_LONG.get(what, 0)):
            yield f"{what} has {lines} lines; the limit is {limit}"


def undocumented(path: Path, root: Path, tree: ast.AST) -> Iterator[str]:
    assert isinstance(tree, ast.Module)
    if tree.body and not ast.get_docstring(tree):
        yield f"{path.relative_to(root)} does not say what it owns: it has no docstring"


RULES = (wrong_layers, wrong_neighbours, wrong_outsiders, impure, too_long, undocumented)


def violations(root: Path, rule) -> list[str]:
    return [v for path in sorted(root.rglob("*.py")) for v in rule(path, root, parsed(path))]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_source_keeps(rule) -> None:
    assert len(list(ROOT.rglob("*.py"))) > 10
    assert not violations(ROOT, rule)


@pytest.mark.parametrize("rule", [too_long, undocumented], ids=lambda r: r.__name__)
@pytest.mark.parametrize("package", ["rowlock_simulation", "rowlock_bench"])
def test_what_lies_beside_the_package_keeps(rule, package: str) -> None:
    assert not violations(ROOT.with_name(package), rule)


def test_no_allowance_outlives_its_need() -> None:
    lines = {what: n for path in ROOT.rglob("*.py") for what, n, _ in lengths(path, ROOT, parsed(path))}
    limit = {what: MAX_FUNCTION_LINES if ":" in what else MAX_MODULE_LINES for what in TOO_LONG}
    assert not [what for what, allowed in TOO_LONG.items() if lines.get(what, 0) <= limit[what] or lines[what] < allowed]


BAD: dict[str, dict[str, str]] = {
    "wrong_layers": {
        "protocol/a.py": "from rowlock.storage.store import X",
        "log/b.py": "def f():\n    import rowlock.transaction.commit",
        "clock.py": "from rowlock import exceptions as e, tables",
        "transaction/c.py": "import rowlock",
        "helpers/d.py": "x = 1",
    },
    "wrong_neighbours": {
        "engines/appends/a.py": "from rowlock.engines.spark.evaluator import Evaluator",
        "engines/spark/read/b.py": "from rowlock.engines import appends",
    },
    "wrong_outsiders": {
        "engines/appends/f.py": "from rowlock_simulation.memory import engine",
        "cli/a.py": "def f():\n    from pyspark.sql import SparkSession",
        "log/b.py": "import obstore.store",
        "engines/appends/e.py": "import pyspark",
        "engines/spark/c.py": "import pyarrow.fs",
        "protocol/d.py": "from pyarrow import fs",
    },
    "impure": {
        "protocol/a.py": "import time",
        "protocol/b.py": "x = open('f')",
        "conflict/c.py": "from pathlib import Path",
        "conflict/d.py": "from rowlock import clock",
        "conflict/e.py": "import datetime\nx = datetime.datetime.now()",
        "advice/costs.py": "import os",
    },
    "too_long": {
        "log/a.py": "x = 1\n" * (MAX_MODULE_LINES + 1),
        "log/b.py": "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES,
    },
    "undocumented": {"log/a.py": "x = 1"},
}
GOOD = {
    "clock.py": '"""."""\nimport time',
    "protocol/a.py": '"""."""\nfrom pathlib import PurePosixPath\nimport uuid\nfrom rowlock.exceptions import InvalidInput',
    "storage/a.py": '"""."""\nimport obstore, os\nfrom rowlock import clock, exceptions\nfrom rowlock.protocol.a import X',
    "engines/spark/a.py": '"""."""\nimport pyspark\nfrom rowlock.engines.spark.read.b import Y',
    "advice/attempts.py": '"""."""\nimport threading\nfrom rowlock import clock',
    "cli/a.py": '"""."""\nimport rowlock\nfrom rowlock import DeltaTable',
    "log/__init__.py": "",
    "log/b.py": '"""."""\ndef f():\n    """A line.\n' + "\n" * MAX_FUNCTION_LINES + '    """\n    return 1\n',
    "__init__.py": '"""."""\nfrom rowlock.tables import DeltaTable\nfrom rowlock.engines.spark.session.session import spark',
}


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_rule_finds_what_breaks_it(rule, tmp_path: Path) -> None:
    bad = BAD[rule.__name__]
    found = violations(written(tmp_path, bad), rule)
    assert {name for name in bad if any(v.startswith(name) for v in found)} == set(bad), found


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_rule_lets_good_code_be(rule, tmp_path: Path) -> None:
    assert not violations(written(tmp_path, GOOD), rule)
