"""One of two processes that share a Hive metastore: runs the steps that it is told, one after the other, and answers each.

usage: python -m support.metastore_session, with the settings of the session as one line of JSON on standard input, then one statement of SQL on each line.
Each answer is one line of JSON: the rows of the statement, or the name of the error's class.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    import rowlock
    from rowlock.engines.spark.session.java import ensure_java
    from rowlock.engines.spark.session.session import local_settings

    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in (local_settings(cores=1, memory_mb=768) | json.loads(sys.stdin.readline())).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rowlock.enable(spark)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            answer: object = [list(row) for row in spark.sql(line.strip()).collect()]
        except Exception as e:
            answer = f"{type(e).__name__}: {str(e)[:300]}"
        print(json.dumps(answer, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
