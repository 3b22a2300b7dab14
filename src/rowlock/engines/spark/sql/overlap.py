"""Whether a folder that a command writes or deletes is that of a Delta table, lies in one, or holds one.  Reads folders, never a log."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.protocol.names import LOG_DIRECTORY
from rowlock.protocol.paths import decode

SINK_LOG = "_spark_metadata"
"""The folder that Spark makes below the one that a stream is to write files into, before anything of the stream is looked at."""


def delete_empty(spark: SparkSession, place: str, name: str) -> None:
    """Deletes the folder `name` in `place` where there is one and nothing is in it."""
    path = catalyst(spark).hadoop_path
    made = path(path(place), name)
    files = made.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if files.exists(made) and not files.listStatus(made):
        files.delete(made, False)


def table_at(spark: SparkSession, place: str, *, below: bool, spared: Collection[str] = ()) -> str | None:
    """The Delta table that contains `place`, with `below` also one inside it; None where there is none.

    `below` walks through all folders in `place`: for commands that delete what is there.  Links are followed for `place` itself.
    `spared`: local folders of tables that may lie there.
    """
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    given = catalyst(spark).hadoop_path(place)
    files = given.getFileSystem(hadoop)
    full = given.makeQualified(files.getUri(), files.getWorkingDirectory())
    uri = full.toUri()
    if str(uri.getScheme()) == "file":
        return _local(decode(str(uri.getRawPath())), below=below, spared={os.path.realpath(s) for s in spared})
    return _remote(spark, files, full, below=below)


def _local(place: str, *, below: bool, spared: Collection[str]) -> str | None:
    real = Path(os.path.realpath(place))
    for folder in (real, *real.parents):
        if (folder / LOG_DIRECTORY).is_dir():
            return str(folder)
    if below:
        for folder_below, names, _ in os.walk(real):
            if LOG_DIRECTORY in names and folder_below not in spared:
                return folder_below
    return None


def _remote(spark: SparkSession, files: Any, place: Any, *, below: bool) -> str | None:
    path = catalyst(spark).hadoop_path
    folder = place
    while folder is not None:
        if files.exists(path(folder, LOG_DIRECTORY)):
            return str(folder.toString())
        folder = folder.getParent()
    waiting = [place] if below and files.exists(place) else []
    while waiting:
        inside = [s.getPath() for s in files.listStatus(waiting.pop()) if s.isDirectory()]
        if found := next((p for p in inside if str(p.getName()) == LOG_DIRECTORY), None):
            return str(found.getParent().toString())
        waiting += inside
    return None
