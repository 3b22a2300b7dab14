"""Which statements are Rowlock's on a session that has delta-spark's JAR, too.

Where the session's setting gives Delta tables to Rowlock, all that change them are, and queries stay delta-spark's, which read the same rows.  Else those
that name Rowlock are: rowlock.`/path`, and tables that are made USING rowlock.
"""

from __future__ import annotations

import re
from typing import Any

from rowlock.api.sql import statements
from rowlock.engines.spark.catalyst.bridge import class_name
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.sql.session import serves_delta

_OWN = "rowlock"
_PATH_IN_TEXT = re.compile(r"\b`?rowlock`?\s*\.\s*`", re.IGNORECASE)
_DELTA_SPARKS = "org.apache.spark.sql.delta.sources.DeltaDataSource"


def is_asked(nodes: Nodes, plan: Any) -> bool:
    """Whether a command is Rowlock's to look at."""
    if serves_delta(nodes.spark):
        return True
    kind = statements.statement_kind(plan)
    if kind in statements.MAKES and statements.format_of(nodes, plan).lower() == _OWN:
        return True
    return any(_is_own(node if isinstance(node, list) else nodes.parts(node)) for node in statements.targets(nodes, plan, kind))


def is_asked_text(spark: SparkSession, text: str) -> bool:
    """Whether a text that may be a statement of Delta's own is Rowlock's to look at."""
    if serves_delta(spark):
        return True
    if not _PATH_IN_TEXT.search(text):
        return False
    found = statements.parsed_own(spark, text)
    return found is not None and _is_own(found.table)


def is_asked_name(nodes: Nodes, node: Any) -> bool:
    """Whether what a query names is Rowlock's to read."""
    if serves_delta(nodes.spark):
        return True
    if class_name(node) == "UnresolvedTableValuedFunction":
        return False
    return _is_own(nodes.parts(node.relation() if class_name(node) == "RelationTimeTravel" else node))


def is_write(plan: Any) -> bool:
    """Whether a command writes a DataFrame by format name to delta-spark's data source."""
    return class_name(plan) == "SaveIntoDataSourceCommand" and str(plan.dataSource().getClass().getName()) == _DELTA_SPARKS


def write_of(nodes: Nodes, plan: Any) -> tuple[str, dict[str, str], DataFrame]:
    """The mode, the options and the rows of such a write."""
    held = plan.options()
    options = held.originalMap() if class_name(held) == "CaseInsensitiveMap" else held
    return str(plan.mode().name()), {str(k): str(v) for k, v in nodes.mapping(options).items()}, nodes.frame(plan.query())


def _is_own(parts: Any) -> bool:
    return parts is not None and len(parts) == 2 and str(parts[0]).lower() == _OWN
