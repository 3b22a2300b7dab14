"""Marks tests that only newer versions of Spark can run; `make versions` counts what is left out for it, by its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyspark
import pytest

INSTALLED = ".".join(pyspark.__version__.split(".")[:2])
"""The version of Spark that is installed, such as `4.1`."""
HAS_DELTA_SPARK = INSTALLED <= "4.2"
"""Whether there is a delta-spark for this Spark: 4.4 has no JAR for a later one."""
_ASKS_DELTA_SPARK = re.compile(r"Failed to find the data source: delta\.|Relation \[delta, |Unresolved\w+ \[(?:delta, [^]]*|DETAIL|HISTORY)\]")


def needs_spark(version: str, why: str) -> pytest.MarkDecorator:
    """Skips a test on a Spark before `version`, which lacks what `why` names."""
    return pytest.mark.skipif(version > INSTALLED, reason=f"Spark {version}: {why}")


def cases(names: Iterable[str], since: Mapping[str, tuple[str, str]]) -> list[Any]:
    """Parameters of a test by their names; those in `since` need a version of Spark, and why."""
    return [pytest.param(name, marks=needs_spark(*since[name]) if name in since else ()) for name in names]


def asks_delta_spark(error: BaseException) -> bool:
    """Whether a test failed for it asks delta-spark, which this Spark has not: then it is left out, as one that only a newer Spark can run."""
    return not HAS_DELTA_SPARK and bool(_ASKS_DELTA_SPARK.search(str(error)))
