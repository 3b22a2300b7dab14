"""The test class that Delta's own Python tests get in place of theirs: a local session with `rowlock.enable`, and without delta-spark's JAR."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.testing.sqlutils import ReusedSQLTestCase

import rowlock
from rowlock.engines.spark.session.session import local_settings


class DeltaTestCase(ReusedSQLTestCase):  # type: ignore[misc]
    """Each test has a folder of its own in `tempFile`."""

    @classmethod
    def conf(cls) -> Any:
        """The settings of the session, which all tests of a class share."""
        given = SparkConf(loadDefaults=False)
        for name, value in local_settings(cores=2, memory_mb=1024).items():
            given.set(name, value)
        return given

    @classmethod
    def setUpClass(cls) -> None:
        """Starts the session and enables Rowlock on it."""
        super().setUpClass()
        cls.spark.sparkContext.setLogLevel("OFF")
        rowlock.enable(cls.spark)

    def setUp(self) -> None:
        """Makes the folder."""
        super().setUp()
        self.tempPath = tempfile.mkdtemp()
        self.tempFile = str(Path(self.tempPath) / "tempFile")

    def tearDown(self) -> None:
        """Deletes it."""
        super().tearDown()
        shutil.rmtree(self.tempPath, ignore_errors=True)

    @contextmanager
    def tempTable(self) -> Iterator[str]:
        """A name for a table, which is dropped after the block."""
        name = f"table_{uuid.uuid4().hex}"
        with self.table(name):
            yield name
