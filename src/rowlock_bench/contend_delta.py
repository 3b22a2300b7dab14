"""delta-spark as a contender of rowlock_bench.contend: the same scenario, delta-spark's own session and DeltaTable.

Started by `rowlock bench`.  Needs the package delta-spark (the extra `test`); its JARs come from Maven Central the
first time.
"""

from __future__ import annotations

import sys

from delta.tables import DeltaTable

from rowlock_bench.contend import Engine, main
from rowlock_bench.delta_session import session

main(
    Engine(
        name="delta-spark",
        session=session,
        table_class=lambda: DeltaTable,
        append=lambda rows, path: rows.write.format("delta").mode("append").save(path),
        read=lambda spark, path: spark.read.format("delta").load(path),
        command=(sys.executable, "-m", "rowlock_bench.contend_delta"),
    )
)
