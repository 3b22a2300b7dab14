"""The code of the README, of the recipes and of the first guides runs as it stands on the pages; only the places of tables are others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import ROOT, code_blocks

RECIPES = ROOT / "docs" / "recipes"
README = "the README"
ON_SPARK = (README, "from-delta-spark", "airflow", "dbt", "notebook", "other-engines")
GUIDES = ("sql", "streams", "append")
CLOUDS = {"s3://lake/sales": "minio", "gs://lake/sales": "gcs", "az://lake/sales": "azurite"}

# Airflow and dbt are not among the tests' dependencies: Airflow's decorators return what they are given, and dbt's own code runs where dbt is installed.
_SCRIPT = """
import importlib.util, json, sys, types
from duckdb_extensions import import_extension

import rowlock

import_extension("delta")
same = lambda call=None, **options: call if call is not None else same
sys.modules |= {"airflow": types.ModuleType("airflow"), "airflow.sdk": types.SimpleNamespace(dag=lambda **options: lambda call: lambda: None, task=same)}
spark = rowlock.enable(rowlock.spark(cores=1, memory_mb=768))
for name, blocks in json.load(sys.stdin).items():
    space = {"__name__": name}
    for language, text in blocks:
        if language == "sql":
            spark.sql("select 1 as id, 10 as amount union all select 2, 20").createOrReplaceTempView("incoming")
            statements = [s for s in text.split(";") if s.strip()]
            for statement in statements:
                spark.sql(statement)
            spark.sql("select 2 as id, 99 as amount union all select 3, 30").createOrReplaceTempView("incoming")
            for statement in statements[1:]:
                spark.sql(statement)
            rows = [tuple(r) for r in spark.table("default.sales").orderBy("id").collect()]
            assert rows == [(1, 10), (2, 99), (3, 30)], rows
        elif "dbt." not in text or importlib.util.find_spec("dbt"):
            exec(compile(text, name + ".md", "exec"), space)
    if name == "the README":
        rows = [(r.id, r.country, round(r.amount, 6)) for r in spark.table("sales").orderBy("id").collect()]
        receipt = str(space["txn"].receipt)
        assert "committed as version 6; it had read version 4" in receipt and "version 5 (UPDATE); 1 row rebased" in receipt, receipt
        assert rows == [(1, "US", 11.0), (2, "UK", 51.0), (3, "DE", 30.0), (4, "FR", 40.0)], rows
    if name == "notebook":
        shown = space["t"]._repr_html_()
        assert "version" in shown and "shop bigint" in shown and "id bigint" in shown, shown
    if name == "streams":
        assert [tuple(r) for r in spark.table("totals").orderBy("product").collect()] == [("cup", 9.0), ("tea", 10.0)]
    spark.sql("DROP TABLE IF EXISTS sales")
    print(name)
"""


def test_every_recipe_is_run_and_linked() -> None:
    pages = {path.stem for path in RECIPES.glob("*.md")}
    assert {*pages, README} == {*ON_SPARK, "clouds"}
    for place in (ROOT / "mkdocs.yml", ROOT / "README.md"):
        text = place.read_text(encoding="utf-8")
        assert all(f"docs/recipes/{page}.md" in text for page in pages), place.name


def _page(name: str) -> Path:
    return ROOT / "README.md" if name == README else (ROOT / "docs" if name in GUIDES else RECIPES) / f"{name}.md"


@pytest.mark.soak("each recipe is a program of its own", ci=True)
@pytest.mark.spark
def test_recipes_on_spark(tmp_path: Path) -> None:
    """All of them in one session of their own: `rowlock.enable` changes a session for good."""
    blocks = {
        name: [
            *(("sql", text) for text in (code_blocks(RECIPES / f"{name}.md", "sql", section="What dbt sends") if name == "dbt" else [])),
            *(("python", text.replace("/lake/", f"{tmp_path}/{name}/").replace("/tmp/sales", f"{tmp_path}/sales")) for text in code_blocks(_page(name))),
        ]
        for name in (*ON_SPARK, *GUIDES)
    }
    project, profiles = code_blocks(RECIPES / "dbt.md", "yaml")
    (tmp_path / "models").mkdir()
    for place, text in (("dbt_project.yml", project), ("profiles.yml", profiles), ("models/sales.sql", code_blocks(RECIPES / "dbt.md", "sql")[0])):
        (tmp_path / place).write_text(text)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=tmp_path, env=environment, input=json.dumps(blocks), capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line for line in done.stdout.splitlines() if line in blocks] == [*blocks], done.stdout[-2000:]


@pytest.mark.parametrize("place", CLOUDS)
def test_the_clouds(place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    server = request.getfixturevalue(CLOUDS[place])
    for name, value in server.storage_options.items():
        monkeypatch.setenv(name, value)
    (code,) = code_blocks(RECIPES / "clouds.md")
    exec(code.replace("s3://lake/sales", server.fresh_root()), {})
