"""Tables by name in a Hive metastore that two processes share: both see what the other makes and changes, and their statements are rebased over each other."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rowlock.storage import open_store
from servers.postgres import USER, Postgres

TESTS = Path(__file__).parents[1]


class Session:
    """A process with a session on the metastore."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def sql(self, text: str) -> Any:
        """What a statement answers: its rows, or its error as a text."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.replace("\n", " ") + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 180)  # one answer is one line, so nothing waits in the buffer
        assert ready, "no answer within three minutes"
        return json.loads(self._process.stdout.readline())


@contextmanager
def session(postgres: Postgres, driver: str, warehouse: Path) -> Iterator[Session]:
    folder = warehouse.parent / f"process-{os.urandom(4).hex()}"
    folder.mkdir()
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.driver.extraClassPath": f"{driver}/*",  # Hive's pool of connections does not see spark.jars
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
        "spark.hadoop.javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "spark.hadoop.javax.jdo.option.ConnectionUserName": USER,
        "spark.hadoop.javax.jdo.option.ConnectionPassword": "",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "false",
        "spark.hadoop.datanucleus.schema.autoCreateTables": "true",
        "spark.hadoop.datanucleus.schema.autoCreateColumns": "true",
        "spark.hadoop.datanucleus.schema.autoCreateConstraints": "false",  # made in a connection of their own, they wait for ever for that of the first statement
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)]), "PYSPARK_PYTHON": sys.executable}
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "support.metastore_session"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.flush()
        found = Session(process)
        try:
            assert found.answer() == "ready"
        except json.JSONDecodeError:
            pytest.fail((folder / "log").read_text()[-3000:])
        yield found
    finally:
        process.kill()
        process.wait()
        log.close()


@pytest.mark.soak("two sessions with a metastore, a minute", ci=True)
def test_two_processes_share_a_hive_metastore(postgres: Postgres, postgres_driver: str, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    with ExitStack() as stack:
        one = stack.enter_context(session(postgres, postgres_driver, warehouse))
        # The metastore makes its own tables at their first use, and two processes that do so at once wait for each other in PostgreSQL.
        for text in ("CREATE TABLE first (id BIGINT) USING delta", "INSERT INTO first VALUES (1)", "ALTER TABLE first RENAME TO renamed", "DROP TABLE renamed"):
            assert one.sql(text) == []
        two = stack.enter_context(session(postgres, postgres_driver, warehouse))
        made = list(ThreadPoolExecutor(2).map(lambda s: s.sql("CREATE TABLE IF NOT EXISTS sales (id BIGINT, n BIGINT) USING delta"), (one, two)))
        assert made == [[], []]
        assert [m.key for m in open_store(warehouse / "sales").list("_delta_log") if m.key.endswith(".json")] == ["_delta_log/00000000000000000000.json"]
        assert one.sql("INSERT INTO sales SELECT id, 0 FROM range(10)") == [] and two.sql("SELECT count(*) FROM sales") == [[10]]

        def count(s: Session) -> list[Any]:
            merge = "MERGE INTO sales t USING (SELECT id FROM range(10)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1"
            return [s.sql("UPDATE sales SET n = n + 1" if turn % 2 else merge) for turn in range(4)]

        with ThreadPoolExecutor(2) as pool:
            for answers in pool.map(count, (one, two)):
                assert all(isinstance(a, list) and a[0][0] == 10 for a in answers), answers
        assert one.sql("SELECT sum(n) FROM sales") == two.sql("SELECT sum(n) FROM sales") == [[80]]

        assert one.sql("ALTER TABLE sales ADD COLUMNS (region STRING)") == []
        assert two.sql("INSERT INTO sales VALUES (10, 0, 'eu')") == [] and one.sql("SELECT region FROM sales WHERE id = 10") == [["eu"]]
        assert two.sql("CREATE TABLE big USING delta AS SELECT * FROM sales WHERE n = 8") == []
        assert one.sql("SELECT count(*) FROM big") == [[10]] and [r[1] for r in one.sql("SHOW TABLES")] == ["big", "sales"]
        assert one.sql("ALTER TABLE big RENAME TO huge") == [] and two.sql("SELECT count(*) FROM huge") == [[10]]
        assert two.sql("DROP TABLE huge") == [] and "TABLE_OR_VIEW_NOT_FOUND" in one.sql("SELECT * FROM huge")
        assert one.sql("OPTIMIZE sales")[0][1] is not None and two.sql("SELECT count(*), sum(n) FROM sales") == [[11, 80]]
