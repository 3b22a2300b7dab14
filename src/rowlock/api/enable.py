"""`rowlock.enable` and `rowlock.sql`: Rowlock under Spark's own entrances, and the same statements by a call; and programs that were written for delta-spark.

Such a program gets our modules `delta`, settings and sessions by `rowlock run job.py` or by `import rowlock.as_delta`.  Must never import delta-spark's own modules.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from rowlock import arguments, exceptions, threads
from rowlock.api import expressions
from rowlock.api.connect import check_classic
from rowlock.api.delta_table import DeltaTable
from rowlock.api.merge_builder import DeltaMergeBuilder
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.api.sql.answers import ANSWERS, run_text
from rowlock.api.table_builder import DeltaTableBuilder, IdentityGenerator
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.session.delta_spark_programs import change_sessions
from rowlock.engines.spark.sql import session
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import DeltaConcurrentModificationException, InvalidInput
from rowlock.version import VERSION

_enabling = threads.module_lock()


def enable(spark: SparkSession) -> SparkSession:
    """Gives the statements of `spark.sql`, the formats `delta` and `rowlock` and tables in the catalog to Rowlock, on this session and those made from it.

    Statements on Delta tables then run as Rowlock's transactions, and Spark's own commands can no longer change or delete such a table: what Rowlock does not
    carry out is refused by name, as is a command of Spark that was never reviewed.  docs/sql.md has the list.  It holds for as long as the session lives,
    and takes two to three seconds, less from the second time on.  Runs on the driver, without a Spark job.

    Args:
        spark: A classic SparkSession (not Spark Connect) of Spark 4.0 to 4.3.  One that is enabled already is left as it is.  Where it has delta-spark's JAR,
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
        session.enable(spark, ANSWERS, _is_delta)
    return spark


def _is_delta(spark: SparkSession, name: str) -> bool:
    """Whether a name is a Delta table's in the session's catalog, and Rowlock's to write."""
    if not Session(spark).serves_delta:
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


_LOGGER = logging.getLogger("rowlock")
_TABLES = (DeltaTable, DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTableBuilder, IdentityGenerator)


def install(announce: Callable[[str], None] = _LOGGER.warning, missing: Callable[[str], None] = lambda name: None) -> None:
    """Puts Rowlock in delta-spark's place in this process.  Called again it does nothing.  Starts no session.

    Args:
        announce: Called with one line for people: which of delta-spark's JARs and settings were left out.
        missing: Called with the full name that a program looked for in the modules `delta` and that Rowlock does not have.

    Raises:
        InvalidInput: delta-spark's own modules are imported already; the program holds their classes.
    """
    if isinstance(sys.modules.get("delta"), _Module):
        return
    if theirs := sorted(name for name in sys.modules if name == "delta" or name.startswith("delta.")):
        raise InvalidInput(f"{theirs[0]} is imported already, so this program holds delta-spark's classes: import rowlock.as_delta first, or use rowlock run")
    sys.modules |= _modules(missing)
    reported: set[str] = set()

    def left_out(names: Iterable[str]) -> None:
        if new := [name for name in dict.fromkeys(names) if name not in reported]:
            reported.update(new)
            announce(f"Rowlock serves Delta tables: left out delta-spark's {', '.join(new)}")

    change_sessions(enable, left_out)


class _Module(ModuleType):
    """A module of delta-spark's name with Rowlock's classes in it."""

    def __init__(self, name: str, members: Mapping[str, Any], missing: Callable[[str], None]) -> None:
        super().__init__(name, f"Rowlock in the place of delta-spark's {name}.")
        self.__dict__.update(members)
        self.__all__ = [*members]
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._missing(f"{self.__name__}.{name}")
        raise AttributeError(f"Rowlock has no {self.__name__}.{name}")


def _modules(missing: Callable[[str], None]) -> dict[str, ModuleType]:
    """The modules of delta-spark's wheel that programs import."""
    pip, version = {"configure_spark_with_delta_pip": configure_spark_with_delta_pip}, {"__version__": VERSION}
    parts: dict[str, dict[str, Any]] = {
        "delta.tables": {kind.__name__: kind for kind in _TABLES},
        "delta.exceptions": {
            n: kind for n, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, DeltaConcurrentModificationException)
        },
        "delta.pip_utils": pip,
        "delta.version": version,
        "delta": {"DeltaTable": DeltaTable, **pip, **version},
    }
    modules: dict[str, ModuleType] = {name: _Module(name, members, missing) for name, members in parts.items()}
    whole = modules["delta"]
    whole.__path__ = []  # a package: `import delta.tables` works
    for name, module in modules.items():
        if name != "delta":
            setattr(whole, name.removeprefix("delta."), module)
    return modules


def configure_spark_with_delta_pip(spark_session_builder: Any, extra_packages: list[str] | None = None) -> Any:
    """Returns the builder with `extra_packages` in `spark.jars.packages`; delta-spark's own JAR is not added, since Rowlock needs none."""
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return spark_session_builder
