"""Every argument of every public call, given values of other types: it works, or what is raised says which argument is wrong, and nothing was written (I9)."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock
import rowlock.tables
from rowlock.exceptions import InvalidInput, RowlockError, WrongType
from unit.api.examples import public, table_in

VALUES: dict[str, Any] = {
    "an object": object(),
    "a number": 7,
    "a fraction": 2.5,
    "a bool": True,
    "text": "x",
    "bytes": b"x",
    "a list": ["x", 7],
    "a dict": {"x": object()},
    "a dict by number": {7: "x"},
}
ROWS = pa.table({"id": [4], "region": ["us"], "amount": [1.0]})
NOT_CALLED = (
    "rowlock.exceptions.",
    "rowlock.Receipt",
    "rowlock.Conflict",
    "rowlock.MultiTable",
    "rowlock.tables.DeltaTable",
    "rowlock.tables.read",
    "rowlock.tables.write",
    "rowlock.tables.run",
)
"""Errors and receipts are made by Rowlock alone; what is in rowlock.tables and in rowlock, too, is asked once."""
WITHOUT_SPARK: dict[str, Callable[[str], dict[str, Any]]] = {
    "rowlock.append": lambda path: {"path": path, "data": ROWS},
    "rowlock.to_arrow": lambda path: {"path": path},
    "rowlock.set_limits": lambda path: {},
    "rowlock.create_lock_table": lambda path: {"provider": "object"},
    "rowlock.Limits": lambda path: {},
}


def written(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and "spark-warehouse" not in p.parts}


def variants(parameters: list[str]) -> Iterator[tuple[str, str]]:
    for parameter in parameters:
        for value in VALUES:
            yield parameter, value


def ask(call: Callable[[], Any], parameter: str, what: str, folder: Path, errors: tuple[type[Exception], ...] = (RowlockError,)) -> None:
    """Makes a call with one wrong argument."""
    before = written(folder)
    try:
        call()
    except errors as e:
        if isinstance(e, TypeError):
            assert parameter.lower() in str(e).lower(), (what, str(e))
        assert written(folder) == before, what
    except Exception as e:
        raise AssertionError(f"{what} raises {type(e).__name__}: {e}") from e


def given(name: str, value: Any, signature: inspect.Signature, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """(positional, named) arguments of a call, with the one of this name replaced."""
    kind = signature.parameters[name].kind if name in signature.parameters else inspect.Parameter.KEYWORD_ONLY  # one of `**options`
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return [value], {}
    if kind is inspect.Parameter.VAR_KEYWORD:
        return [], {"driver_rows": value}
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        return [value], {}
    loose = [v for k, v in arguments.items() if signature.parameters[k].kind is inspect.Parameter.VAR_POSITIONAL]
    return loose, {**{k: v for k, v in arguments.items() if signature.parameters[k].kind is not inspect.Parameter.VAR_POSITIONAL}, name: value}


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)  # "x" is a path, too
    path, call = table_in(tmp_path), getattr(rowlock, name.removeprefix("rowlock."))
    signature, arguments, before = inspect.signature(call), WITHOUT_SPARK[name](path), rowlock.Limits()
    for parameter, kind in variants(list(signature.parameters)):
        args, kwargs = given(parameter, VALUES[kind], signature, arguments)
        ask(
            partial(call, *args, **kwargs),
            "driver_rows" if parameter == "values" else parameter,
            f"{name}({parameter}={kind})",
            tmp_path,
        )
    rowlock.set_limits(before)


def subjects(spark: Any, path: str) -> dict[str, Any]:
    """An object of each public class that has methods."""
    from rowlock import DeltaTable
    from rowlock.tables import IdentityGenerator

    t = DeltaTable.forPath(spark, path)
    merge = t.alias("t").merge(rows(spark).alias("s"), "t.id = s.id")
    return {
        "rowlock.DeltaTable": t,
        "rowlock.tables.DeltaMergeBuilder": merge,
        "rowlock.tables.DeltaMergeMatchedActionBuilder": merge.whenMatched(),
        "rowlock.tables.DeltaMergeNotMatchedActionBuilder": merge.whenNotMatched(),
        "rowlock.tables.DeltaMergeNotMatchedBySourceActionBuilder": merge.whenNotMatchedBySource(),
        "rowlock.tables.DeltaOptimizeBuilder": t.optimize(),
        "rowlock.tables.DeltaTableBuilder": DeltaTable.create(spark),
        "rowlock.tables.DeltaTransaction": t.transaction(),
        "rowlock": rowlock,
        "rowlock.streaming": rowlock.streaming,
        "rowlock.tables": type("tables", (), {"IdentityGenerator": IdentityGenerator, "transaction": staticmethod(rowlock.tables.transaction)}),
        "rowlock.tables.MultiTableTransaction": rowlock.transaction([t, t]),
    }


@cache
def rows(spark: Any) -> Any:
    return spark.createDataFrame([(4, "us", 1.0)], "id bigint, region string, amount double")


def valid(spark: Any, path: str, table: Any) -> dict[str, Any]:
    """A value that will do for each parameter that has no default."""
    return {
        "sparkSession": spark, "spark": spark, "path": path, "df": rows(spark), "source": rows(spark), "table": table, "fn": lambda txn: None,
        "tableOrViewName": "nowhere", "identifier": "parquet.`/nowhere`", "aliasName": "a", "properties": {"a": "b"}, "keys": ["a"], "set": {"amount": "1"},
        "values": {"id": "1"}, "condition": "id = 1", "mode": "symlink_format_manifest", "version": 0, "timestamp": "2026-01-31", "name": "c", "expression": "id > 0",
        "colName": "c", "dataType": "int", "existing": "id", "new": "c", "names": "id", "cols": "id", "partitionFilter": "region = 'eu'", "key": "a", "value": "b",
        "location": path, "comment": "c", "featureName": "changeDataFeed", "readerVersion": 1, "writerVersion": 2, "target": path + "x", "text": "SELECT 1", "start": 0,
        "tables": [table, table],
    }  # fmt: skip


MADE_BY_CALLS = ("rowlock.DeltaTable", *(f"rowlock.tables.{n}" for n, v in vars(rowlock.tables).items() if inspect.isclass(v) and n != "IdentityGenerator"))
SPARK_CALLS = sorted(
    n for n, v in public() if not isinstance(v, property) and not n.startswith(NOT_CALLED) and n not in WITHOUT_SPARK and n not in MADE_BY_CALLS
)


@pytest.mark.no_peers("tables that are changed in every way that is allowed; what is refused is looked at here")
@pytest.mark.parametrize("name", SPARK_CALLS)
def test_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from pyspark.errors import PySparkException

    monkeypatch.chdir(tmp_path)
    owner, _, method = name.rpartition(".")
    path = table_in(tmp_path)
    found = subjects(spark, path)
    call = getattr(found[owner], method)
    signature, defaults = inspect.signature(call), valid(spark, path, found["rowlock.DeltaTable"])
    options = [n for n, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD]  # those of a transaction
    needed = {n: defaults[n] for n, p in signature.parameters.items() if p.default is p.empty and n not in options}
    names = [n for n in signature.parameters if n not in options] + [
        n for n in inspect.signature(rowlock.DeltaTable.transaction).parameters if options and n != "self"
    ]
    for parameter, kind in variants(names):
        args, kwargs = given(parameter, VALUES[kind], signature, needed)

        def made(args: list[Any] = args, kwargs: dict[str, Any] = kwargs) -> None:
            with contextlib.ExitStack() as stack:
                asked = call
                if owner == "rowlock.tables.DeltaTransaction":
                    asked = getattr(stack.enter_context(found["rowlock.DeltaTable"].transaction()), method)
                asked(*args, **kwargs)

        ask(made, parameter, f"{name}({parameter}={kind})", tmp_path, (RowlockError, PySparkException))


def test_the_check_finds_an_argument_that_is_not_named(tmp_path: Path) -> None:
    """A test that cannot fail is none."""

    def raises(error: Exception) -> Callable[[], None]:
        def call() -> None:
            raise error

        return call

    def writes() -> None:
        (tmp_path / "left").write_bytes(b"")
        raise WrongType("value")

    ask(raises(WrongType("value is wrong")), "value", "named", tmp_path)
    for call in (raises(WrongType("it is wrong")), raises(TypeError("value")), raises(AttributeError("value")), writes):
        with pytest.raises(AssertionError):
            ask(call, "value", "not named", tmp_path)


def test_a_text_that_no_log_can_hold_is_refused_before_a_file_is_written(tmp_path: Path) -> None:
    rows, path = pa.table({"id": [1]}), str(tmp_path / "t")
    rowlock.append(path, rows)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput, match=r"user_metadata holds .* at character 4"):
        rowlock.append(path, rows, user_metadata="half\ud83d")
    assert sorted(tmp_path.rglob("*")) == before
