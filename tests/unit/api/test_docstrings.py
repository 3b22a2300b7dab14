"""Every public name has a docstring in one form, and its examples run.

The form: a first line that ends with a period; for what is called, whether Spark runs a job; then, in this order and where there is something to say, `Args:`
with every parameter, `Returns:`, `Raises:` with errors that exist, and `Examples:`, which run as doctests.
"""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock.exceptions
from support.arbiter import arbitrated
from unit.api.examples import ON_SPARK, WITHOUT_SPARK, examples_in, public, run, table_in

RAISES_NOTHING = {
    *(f"DeltaTable.{n}" for n in ("create", "createIfNotExists", "createOrReplace", "replace", "optimize")),
    *(f"DeltaMergeBuilder.{n}" for n in ("whenMatched", "whenNotMatched", "whenNotMatchedBySource", "withSchemaEvolution")),
    *(f"Conflict.{n}" for n in ("with_work", "record", "text")),
    "Receipt.record",
}
AS_IN_PYSPARK = {"getCondition", "getErrorClass", "getMessage", "getMessageParameters", "getQueryContext", "getSqlState"}
"""Methods of every error, which PySpark's documentation describes."""
BESIDE_OURS = {"AnalysisException", "KeyError", "Exception"}
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Examples")
SPARK = re.compile(r"Spark(?:'s)? jobs?|no Spark|a Spark job|Spark infers|without Spark")


def sections(text: str) -> dict[str, str]:
    """The text of each section, in the order in which they stand; `` for what is before them."""
    parts = re.split(r"^([A-Z][a-z]+):\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def named(section: str) -> list[str]:
    """What a section says something of: names before a colon, at its own indentation."""
    return re.findall(r"^    \*{0,2}(\w+): \S", section, flags=re.MULTILINE)


def faults(name: str, value: Any) -> list[str]:
    """What a public name's docstring lacks."""
    text = inspect.cleandoc(value.__doc__ or "")
    first, _, _ = text.partition("\n")
    found = sections(text)
    out = [] if first.rstrip(".") and len(first) <= 160 and "." in first else ["a first line"]
    out += [f"section {s}" for s in found if s and s not in SECTIONS]
    if [s for s in found if s] != [s for s in SECTIONS if s in found]:
        out.append("the order of the sections")
    out += [f"{e} under Raises is no error" for e in named(found.get("Raises", "")) if e not in BESIDE_OURS and not hasattr(rowlock.exceptions, e)]
    return out + (faults_of_a_call(name, value, found) if inspect.isfunction(value) else [])


def faults_of_a_call(name: str, value: Any, found: dict[str, str]) -> list[str]:
    signature = inspect.signature(value)
    parameters = [p for p in signature.parameters if p not in ("self", "cls")]
    out = [] if named(found.get("Args", "")) == parameters else [f"Args for {', '.join(parameters)}"]
    if ("Returns" in found) != (signature.return_annotation not in ("None", None)):
        out.append("Returns")
    short = ".".join(name.split(".")[-2:]) if name.count(".") > 1 else name
    if ("Raises" not in found) != (short in RAISES_NOTHING):
        out.append("Raises")
    if ">>> " not in found.get("Examples", ""):
        out.append("Examples")
    if not SPARK.search(found[""]):
        out.append("whether a Spark job runs")
    return out


def test_every_public_name_has_a_docstring_in_the_form() -> None:
    names = dict(public())
    assert {"rowlock.append", "rowlock.DeltaTable.merge", "rowlock.tables.DeltaTransaction.receipt", "rowlock.exceptions.CommitUnknown"} <= set(names)
    assert {name: wrong for name, value in names.items() if name.rpartition(".")[2] not in AS_IN_PYSPARK and (wrong := faults(name, value))} == {}


def test_what_is_not_in_the_form_is_found() -> None:
    def bare(a: int) -> int:
        return a

    def wrong(a: int) -> int:
        """Returns a.

        Returns:
            It.

        Args:
            b: Another.

        Raises:
            NoSuchError: Never.
        """
        return a

    assert faults("rowlock.bare", bare) == ["a first line", "Args for a", "Returns", "Raises", "Examples", "whether a Spark job runs"]
    assert faults("rowlock.wrong", wrong) == [
        "the order of the sections",
        "NoSuchError under Raises is no error",
        "Args for a",
        "Examples",
        "whether a Spark job runs",
    ]


@pytest.mark.parametrize("example", examples_in(*WITHOUT_SPARK), ids=lambda e: e.name)
def test_example_without_spark(example: doctest.DocTest, tmp_path: Path) -> None:
    run(example, path=table_in(tmp_path), folder=str(tmp_path))


def test_examples_that_need_no_spark_import_none() -> None:
    """A child process runs them all; pyspark cannot be imported in it."""
    code = (
        "import pathlib, sys, tempfile\n"
        "sys.modules['pyspark'] = None\n"
        "from unit.api.examples import WITHOUT_SPARK, examples_in, run, table_in\n"
        "for example in examples_in(*WITHOUT_SPARK):\n"
        "    folder = pathlib.Path(tempfile.mkdtemp())\n"
        "    run(example, path=table_in(folder), folder=str(folder))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True, timeout=120)


@pytest.mark.spark
@pytest.mark.usual_limits("some count files")
@pytest.mark.no_peers("examples leave tables of every kind, and some that are replaced")
@pytest.mark.parametrize("example", examples_in(*ON_SPARK), ids=lambda e: e.name)
def test_example_on_spark(example: doctest.DocTest, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F

    from rowlock import DeltaTable, clock

    path = table_in(tmp_path)
    more: dict[str, Any] = several_tables(spark, tmp_path, monkeypatch) if "orders" in example.docstring else {}  # type: ignore[operator]
    run(
        example,
        path=path,
        folder=str(tmp_path),
        spark=spark,
        t=DeltaTable.forPath(spark, path),
        updates=updates(spark),
        DeltaTable=DeltaTable,
        F=F,
        clock=clock,
        **more,
    )


@cache
def updates(spark: Any) -> Any:
    return spark.createDataFrame([(3, "us", 35.0), (4, "us", 40.0)], "id bigint, region string, amount double")


def several_tables(spark: Any, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two tables under one arbiter, and what examples of transactions over both name."""
    from rowlock import DeltaTable

    arbitrated(patch)
    order, stock = pa.table({"id": [1], "sku": [7]}), pa.table({"sku": [7, 8], "n": [5, 5]})
    rowlock.append(str(folder / "orders"), order)
    rowlock.append(str(folder / "stock"), stock)

    def sell(txn: Any) -> None:
        txn[found["stock"]].update("sku = 7", {"n": "n - 1"})

    found = {
        "orders": DeltaTable.forPath(spark, str(folder / "orders")),
        "stock": DeltaTable.forPath(spark, str(folder / "stock")),
        "stock_path": str(folder / "stock"),
        "order": spark.createDataFrame([(2, 7)], "id bigint, sku bigint"),
        "sell": sell,
    }
    return found
