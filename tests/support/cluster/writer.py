"""One of several drivers whose statements meet in the same rows.  usage: python -m support.cluster.writer MASTER TABLE STATEMENTS"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main(master: str, table: str, statements: int) -> None:
    """Adds 1 to the rows with ids below 100, so many times, by UPDATE and by MERGE in turn."""
    from support.cluster.session import cluster_session

    with tempfile.TemporaryDirectory() as folder:
        spark = cluster_session(master, "another driver", Path(folder), cores=1)
        for n in range(statements):
            if n % 2:
                spark.sql(f"UPDATE delta.`{table}` SET v = v + 1 WHERE id < 100")
            else:
                spark.sql(f"MERGE INTO delta.`{table}` t USING (SELECT id FROM range(100)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1")
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
