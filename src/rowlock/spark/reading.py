"""A snapshot as a DataFrame on the user's own session."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowlock.log.snapshot import Snapshot
from rowlock.spark.plane import Plane
from rowlock.spark.scan import quote, table_schema


def read_frame(plane: Plane, snapshot: Snapshot) -> DataFrame:
    """The live rows of a snapshot under its logical columns, with their comments."""
    files = sorted(snapshot.files.adds(), key=lambda f: f.path)
    frame = plane.scanner.frame(snapshot, files, plane.vectors.of)
    told = {f.name: {k: v for k, v in f.metadata.items() if not k.startswith("delta.")} for f in table_schema(snapshot).fields}
    if any(told.values()):
        frame = frame.select(*[F.col(quote(n)).alias(n, metadata=m) if m else F.col(quote(n)) for n, m in told.items()])
    return plane.bridge.dataframe(frame._jdf.queryExecution().analyzed(), plane.spark)
