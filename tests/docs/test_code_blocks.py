"""What users copy runs as it is: the example notebooks, on Spark.  The README's code runs with the recipes (test_recipes.py)."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.documents import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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
