"""What users copy runs as it is: the README's code and the example notebook, on Spark."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rowlock
from support.documents import ROOT, code_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_readme(spark: SparkSession, table_path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """All of its blocks, one after the other, as somebody would paste them; only the place of the table is another."""
    ten_lines, several_statements = code_blocks(ROOT / "README.md")
    assert len([line for line in ten_lines.splitlines() if line]) == 10
    space: dict[str, Any] = {"more_sales": spark.sql("select 3 as id, 'DE' as country, cast(30.0 as decimal(3, 1)) as amount")}
    exec(ten_lines.replace("/tmp/sales", table_path), space)
    said = capfd.readouterr().out
    assert "committed as version 2" in said and "|  2|     UK|  20.0|" in said
    exec(several_statements, space)
    assert sorted(row.country for row in rowlock.read(spark, table_path).collect()) == ["DE", "UK", "US"]


@pytest.mark.parametrize("notebook", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_an_example(notebook: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell in one namespace; what a notebook claims it asserts itself.  With ROWLOCK_KEEP_OUTPUTS=1 what the cells print goes into the file."""
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    held, space = json.loads(notebook.read_text(encoding="utf-8")), {"__name__": "__main__"}
    for nth, cell in enumerate([cell for cell in held["cells"] if cell["cell_type"] == "code"], 1):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("".join(cell["source"]), f"{notebook.name}, {cell['id']}", "exec"), space)
        if os.environ.get("ROWLOCK_KEEP_OUTPUTS"):
            lines = said.getvalue().replace(str(tmp_path), "/tmp").splitlines(keepends=True)
            cell |= {"execution_count": nth, "outputs": [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []}
        assert bool(said.getvalue()) == bool(cell["outputs"]), f"{cell['id']} prints what the file does not show: run this with ROWLOCK_KEEP_OUTPUTS=1"
    if os.environ.get("ROWLOCK_KEEP_OUTPUTS"):
        notebook.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
