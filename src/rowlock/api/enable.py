"""`rowlock.enable` and `rowlock.sql`: Rowlock under Spark's own entrances, and the same statements by a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowlock import arguments, threads
from rowlock.api import expressions
from rowlock.api.connect import check_classic
from rowlock.api.delta_table import DeltaTable
from rowlock.api.sql import answers
from rowlock.api.sql.by_call import run_text
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql import insert, session

_enabling = threads.module_lock()


def enable(spark: SparkSession) -> SparkSession:
    """Gives the statements of `spark.sql`, the formats `delta` and `rowlock` and tables in the catalog to Rowlock, on this session and those made from it.

    Statements on Delta tables then run as Rowlock's transactions, and Spark's own commands can no longer change or delete such a table: what Rowlock does not
    carry out is refused by name, as is a command of Spark that nobody has looked at.  docs/sql.md has the list.  It holds for as long as the session lives,
    and takes two to three seconds, less from the second time on.  Runs on the driver, without a Spark job.

    Args:
        spark: A classic SparkSession (not Spark Connect) of Spark 4.0 to 4.2.  One that is enabled already is left as it is.  Where it has delta-spark's JAR,
            too, its setting `spark.rowlock.delta` says whose Delta tables are: `delta-spark` (the default; Rowlock's is what names rowlock) or `rowlock`.

    Returns:
        The session.

    Raises:
        UnsupportedFeature: The session's Spark is another version, or built in another way: `rowlock.sql` works there.
            Or it is one of Spark Connect: start `rowlock serve` and connect to that.
        InvalidInput: `spark.rowlock.delta` is another word.

    Examples:
        >>> rowlock.enable(spark)  # doctest: +SKIP
        >>> spark.sql("UPDATE sales SET amount = 0 WHERE region = 'us'").show()  # doctest: +SKIP
    """
    check_classic(expressions.session(spark, "spark"), "rowlock.enable")
    with _enabling:
        session.enable(spark, answers.SparkAnswers())
        insert.refuse_options(_is_delta)
    return spark


def _is_delta(spark: SparkSession, name: str) -> bool:
    """Whether a name is a Delta table's in the session's catalog, and Rowlock's to write."""
    if not session.serves_delta(spark):
        return False
    try:
        DeltaTable.forName(spark, name)
    except Exception:  # noqa: BLE001  whatever it is, Spark's own statement says it better
        return False
    return True


def sql(spark: SparkSession, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
    """Runs one statement of SQL on Delta tables, as `spark.sql` does on a session with `rowlock.enable`; works on every session, beside delta-spark too.

    A query is resolved now and read by Spark jobs when the DataFrame is used; every other statement runs now, as one transaction.

    Args:
        spark: A classic SparkSession (not Spark Connect).
        text: The statement.
        args: Values for `:name` (a mapping) or `?` (a list) in the text.

    Returns:
        The rows of a query, or what the statement answers, with delta-spark's columns.

    Raises:
        UnsupportedFeature: Rowlock has no such statement, or it is one on something else than a Delta table: `spark.sql` runs it.
        StatementRefused: Delta does not allow an expression in the statement.
        InvalidInput: The statement cannot be carried out.
        AnalysisException: Spark's: a name cannot be resolved, or the text is no SQL (a ParseException).

    Examples:
        >>> rowlock.sql(spark, f"UPDATE delta.`{path}` SET amount = 0 WHERE region = :r", {"r": "us"}).show()
        +-----------------+
        |num_affected_rows|
        +-----------------+
        |                1|
        +-----------------+
        <BLANKLINE>
        >>> rowlock.sql(spark, f"SELECT count(*) AS n FROM delta.`{path}` VERSION AS OF 0").show()
        +---+
        |  n|
        +---+
        |  3|
        +---+
        <BLANKLINE>
    """
    check_classic(spark, "rowlock.sql")
    return run_text(expressions.session(spark, "spark"), arguments.text(text, "text"), arguments.sql_values(args, "args"))
