"""`rowlock prepare` runs some statements in a session whose JVM writes an archive of its classes when it ends; later sessions read it.

The session runs in a process of its own, which is this module run as a program: a process has one JVM, and this one must end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import rowlock
from rowlock import display
from rowlock.engines.spark.session.java import Archive, Recording, archive, ensure_java, quoted
from rowlock.engines.spark.session.session import start_recorded, stop_with_jvm
from rowlock.exceptions import RowlockError

_MOST_SECONDS = 900


def prepare(console: Console) -> Archive:
    """Writes the archive and prints its path.  Raises RowlockError if this machine's Java cannot write one."""
    ensure_java()
    with tempfile.TemporaryDirectory(prefix="rowlock-prepare-") as folder, console.status("Spark runs some statements and writes down its classes"):
        command = [sys.executable, "-m", "rowlock.cli.prepare", folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_MOST_SECONDS, check=False)
    written = archive()
    if done.returncode or written is None:
        raise RowlockError(f"no class archive was written: {(done.stderr.strip().splitlines() or ['the process printed nothing'])[-1]}")
    console.print(f"Sessions of rowlock.spark() now read {written.top} ({display.size(written.size_bytes)}).", highlight=False, soft_wrap=True)
    text = f"A session of your own does, too, with spark.driver.extraJavaOptions={quoted(written.java_options)}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    return written


def record(folder: Path) -> Archive:
    """Runs statements of each kind on a table in `folder`, ends the session and its JVM, and puts the archive in its place."""
    ensure_java()
    recording = Recording()
    try:
        _run_statements(recording, folder)
        return recording.finish()
    finally:
        recording.discard()


def _run_statements(recording: Recording, folder: Path) -> None:
    """Runs each kind of statement once, on a small table; then the session and its JVM end."""
    spark = rowlock.enable(start_recorded(recording))
    table = f"delta.`{folder / 'table'}`"
    for text in (
        f"CREATE TABLE {table} (id bigint, name string, amount decimal(10, 2), day date) USING delta",
        f"INSERT INTO {table} SELECT id, concat('n', id), id / 3, date_add(DATE '2024-01-01', CAST(id AS int)) FROM range(1000)",
        f"UPDATE {table} SET amount = amount + 1 WHERE id % 7 = 3 AND name LIKE 'n%'",
        f"DELETE FROM {table} WHERE day > DATE '2026-06-01'",
        f"MERGE INTO {table} t USING (SELECT id, 'm' AS name FROM range(900, 1100)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
        f"OPTIMIZE {table}",
        f"SELECT name, count(*), sum(amount) FROM {table} GROUP BY name ORDER BY 2 DESC LIMIT 5",
    ):
        spark.sql(text).collect()
    rowlock.write(spark.range(10).selectExpr("id", "'w' AS name"), str(folder / "table"), mode="append")
    stop_with_jvm(spark, _MOST_SECONDS)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
