"""`rowlock run` and `import rowlock.as_delta`: programs that were written for delta-spark run unchanged, with the rows that delta-spark leaves.

Each way has a JVM of its own, since it changes how a process makes its sessions.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import rowlock
from rowlock.api import enable
from rowlock.engines.spark.session.delta_spark_programs import CATALOG, EXTENSION, without_classes, without_jars
from rowlock.engines.spark.session.java import archive_options, ensure_java, quoted
from support.sessions import without_generated_code

PIPELINE = Path(__file__).parent / "programs" / "pipeline.py"
SOURCES = Path(__file__).parents[2] / "src"
_SPARK = str(Path(pyspark.__file__).parent)
EXPECTED = """\
[(2, 'uk', 40.0), (3, 'us', 35.0), (4, 'de', 40.0)]
[(2, 'uk', 40.0), (3, 'us', 35.0), (4, 'de', 40.0), (10, 'fr', 1.5), (11, 'fr', 1.5)]
[(2, 'uk', 40.0), (3, 'us', 35.0), (4, 'de', 40.0), (10, 'fr', 1.5), (11, 'fr', 1.5)]
[(2, 'uk', 40.0), (3, 'us', 35.0), (4, 'de', 40.0), (10, 'fr', 1.5), (11, 'fr', 1.5)]
[(2, 'uk', 40.0), (3, 'us', 35.0), (4, 'de', 40.0), (10, 'fr', 1.5), (11, 'fr', 1.5)]
3 True
['CREATE TABLE', 'DELETE', 'MERGE', 'UPDATE', 'WRITE']
"""


def _run(command: list[str], place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = os.environ | {"PYTHONPATH": str(SOURCES), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": _SPARK} | environment
    return subprocess.run(command, cwd=place, env=settings, capture_output=True, text=True, timeout=900)


def _quick_start() -> dict[str, str]:
    """The environment of a program whose JVM reads the archive of its classes, and compiles no expressions where `make test` has them evaluated."""
    ensure_java()
    conf = without_generated_code() | {"spark.driver.extraJavaOptions": quoted(archive_options())}
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*(a for name, value in conf.items() if value for a in ("--conf", f"{name}={value}")), "pyspark-shell"])}


def _engines(place: Path) -> set[str]:
    """The engines that wrote the tables below a folder."""
    infos = [json.loads(line) for log in place.rglob("_delta_log/*.json") for line in log.read_text().splitlines() if line.startswith('{"commitInfo"')]
    return {info["commitInfo"]["engineInfo"].split("/")[0] for info in infos}


def _delta_jars() -> str:
    """delta-spark's JARs, where Ivy keeps them: --jars of spark-submit."""
    found = {jar.name: jar for folder in (".ivy2.5.2", ".ivy2") for jar in (Path.home() / folder / "jars").glob("io.delta_*.jar")}
    if not found:
        pytest.skip("delta-spark's JARs are not in Ivy's folder")
    return ",".join(str(jar) for jar in found.values())


@pytest.mark.spark
@pytest.mark.parametrize(
    "way",
    [
        "rowlock run",
        pytest.param("python -m", marks=pytest.mark.soak("a JVM of its own; the way of rowlock run by another name")),
        pytest.param("spark-submit", marks=pytest.mark.soak("a JVM of its own")),
        pytest.param("spark-submit beside the JAR", marks=pytest.mark.soak("a JVM of its own")),
        pytest.param("delta-spark", marks=pytest.mark.soak("what delta-spark itself prints")),
    ],
)
def test_an_unchanged_pipeline(way: str, tmp_path: Path) -> None:
    bin_ = Path(sys.executable).parent
    script = str(SOURCES / "rowlock" / "cli" / "run.py")
    theirs = ["--conf", f"spark.sql.extensions={EXTENSION}", "--conf", f"spark.sql.catalog.spark_catalog={CATALOG}"]
    command = {
        "rowlock run": [str(bin_ / "rowlock"), "run"],
        "python -m": [sys.executable, "-m", "rowlock", "run"],
        "spark-submit": [str(bin_ / "spark-submit"), *theirs, script],
        "spark-submit beside the JAR": [str(bin_ / "spark-submit"), *theirs, *(["--jars", _delta_jars()] if "JAR" in way else []), script],
        "delta-spark": [sys.executable],
    }[way]
    ensure_java()
    done = _run([*command, str(PIPELINE), str(tmp_path)], tmp_path, **(_quick_start() if way == "rowlock run" else {}))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    own = [line for line in done.stdout.splitlines(keepends=True) if line.startswith("rowlock: ")]
    assert (len(own) == 1) == (way == "spark-submit"), "spark-submit prints a program's stderr to its stdout; only there something is left out"
    assert "".join(line for line in done.stdout.splitlines(keepends=True) if line not in own) == EXPECTED
    assert _engines(tmp_path) == {"Apache-Spark" if way == "delta-spark" else "Rowlock"}
    if way == "rowlock run":
        assert "rowlock: Rowlock serves Delta tables: left out delta-spark's io.delta" in done.stderr and "Not handled" not in done.stderr


@pytest.mark.spark
@pytest.mark.parametrize("way", ["rowlock run", "delta-spark"])
@pytest.mark.parametrize("program", ["incremental", "warehouse"])
@pytest.mark.short(ci=("incremental-rowlock run",), why="half a minute each; the same statements, streams, builders and options are asked one by one")
def test_an_unchanged_program(program: str, way: str, tmp_path: Path) -> None:
    """`incremental`: batches and streams; `warehouse`: SQL alone.  Its output is delta-spark's, errors with their PySpark classes, conditions and states included."""
    ensure_java()
    conf = "--conf spark.databricks.delta.snapshotPartitions=2 --conf spark.sql.sources.parallelPartitionDiscovery.parallelism=2 pyspark-shell"
    command, settings = (
        ([str(Path(sys.executable).parent / "rowlock"), "run"], {}) if way == "rowlock run" else ([sys.executable], {"PYSPARK_SUBMIT_ARGS": conf})
    )
    done = _run([*command, str(PIPELINE.with_name(f"{program}.py")), str(tmp_path)], tmp_path, **settings)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.replace(str(tmp_path), "ROOT") == PIPELINE.with_name(f"{program}.txt").read_text()
    assert "Not handled" not in done.stderr


def test_settings_of_delta_spark_are_left_out_and_no_others() -> None:
    settings = {
        "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0, org.apache.spark:spark-avro_2.13:4.2.0,io.delta:delta-storage:4.4.0",
        "spark.jars": "/jars/delta-spark_2.13-4.4.0.jar,s3://b/delta-core_2.12-2.4.0.jar",
        "spark.sql.extensions": f"org.other.Extension,{EXTENSION}",
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.sql.catalog.other": "org.other.Catalog",
    }
    assert without_jars(settings) == [
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "/jars/delta-spark_2.13-4.4.0.jar",
        "s3://b/delta-core_2.12-2.4.0.jar",
    ]
    assert without_classes(settings) == [EXTENSION, CATALOG]
    assert settings == {
        "spark.jars.packages": "org.apache.spark:spark-avro_2.13:4.2.0",
        "spark.sql.extensions": "org.other.Extension",
        "spark.sql.catalog.other": "org.other.Catalog",
    }
    assert without_jars({"spark.sql.catalog.spark_catalog": "mine"}) == without_classes({"spark.sql.catalog.spark_catalog": "mine"}) == []


def test_a_program_without_spark(tmp_path: Path) -> None:
    """Arguments, exit codes, tracebacks and the folder of the program are as under `python`; what Rowlock lacks is named at the end."""
    (tmp_path / "mine.py").write_text("VALUE = 7\n")
    program = tmp_path / "job.py"
    program.write_text("""\
import sys
from delta.tables import DeltaTable
import delta, delta.exceptions
import mine
print(sys.argv[1:], mine.VALUE, __name__, delta.DeltaTable is DeltaTable, DeltaTable.__module__)
try:
    from delta.tables import Nowhere
except ImportError as e:
    print(e)
if "--fail" in sys.argv:
    raise ValueError("the program's own")
sys.exit(3)
""")
    command = [sys.executable, "-m", "rowlock", "run", str(program)]
    done = _run([*command, "a", "--b", "-c"], tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, "['a', '--b', '-c'] 7 __main__ True rowlock.api.delta_table"), done.stderr
    assert "Not handled by Rowlock in this program: delta.tables.Nowhere" in done.stderr
    failed = _run([*command, "--fail"], tmp_path)
    assert failed.returncode == 1 and "ValueError: the program's own" in failed.stderr and "runpy" not in failed.stderr
    missing = _run([sys.executable, "-m", "rowlock", "run", "nowhere.py"], tmp_path)
    assert missing.returncode == 2 and "there is no program 'nowhere.py'" in missing.stderr
    shown = _run([sys.executable, "-m", "rowlock", "run", "--script"], tmp_path)
    assert shown.stdout.strip() == str(SOURCES / "rowlock" / "cli" / "run.py")


@pytest.mark.spark
@pytest.mark.soak("a JVM of its own", ci=True)
def test_a_program_may_end_beside_a_stream(tmp_path: Path) -> None:
    """Its batch ends, or is not there (I1); no stack trace tells that nobody answers the JVM any more."""
    program = tmp_path / "job.py"
    program.write_text(f"""\
import time, rowlock
spark = rowlock.enable(rowlock.spark(cores=2, memory_mb=768))
rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
query = rows.writeStream.format("delta").option("checkpointLocation", {str(tmp_path / "checkpoint")!r}).start({str(tmp_path / "copy")!r})
while len(query.recentProgress) < 3:
    time.sleep(0.1)
print("end", query.isActive)
""")
    done = _run([sys.executable, str(program)], tmp_path)
    assert (done.returncode, done.stdout) == (0, "end True\n")
    assert not [line for line in done.stderr.splitlines() if "ERROR" in line or "Exception" in line or line.startswith("\tat ")], done.stderr
    values = rowlock.to_arrow(str(tmp_path / "copy")).column("value").to_pylist()
    assert sorted(values) == list(range(len(values))) and values


def test_too_late_is_named(tmp_path: Path) -> None:
    program = "import sys, types\nsys.modules['delta'] = types.ModuleType('delta')\nimport rowlock.as_delta\n"
    done = _run([sys.executable, "-c", program], tmp_path)
    assert done.returncode == 1 and "import rowlock.as_delta first" in done.stderr


def test_the_modules_have_delta_sparks_names() -> None:
    """Every public class of delta-spark's modules is there, or is a builder that no program imports."""
    import delta.exceptions
    import delta.tables

    made = enable._modules(lambda name: None)
    theirs = {name for name, value in vars(delta.tables).items() if isinstance(value, type) and value.__module__ == "delta.tables"}
    assert theirs <= set(made["delta.tables"].__all__)
    errors = {name for name, value in vars(delta.exceptions).items() if isinstance(value, type) and value.__module__.startswith("delta.exceptions")}
    assert errors <= set(made["delta.exceptions"].__all__)
