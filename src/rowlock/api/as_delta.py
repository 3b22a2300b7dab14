"""Makes a program that was written for delta-spark run on Rowlock: its modules `delta`, its settings and its sessions.

`rowlock run job.py` and `import rowlock.as_delta` are two ways to it.  Must never import delta-spark's own modules.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from rowlock import exceptions
from rowlock.api.delta_table import DeltaTable
from rowlock.api.enable import enable
from rowlock.api.merge_builder import DeltaMergeBuilder
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.api.table_builder import DeltaTableBuilder, IdentityGenerator
from rowlock.engines.spark.session.delta_spark_programs import change_sessions
from rowlock.exceptions import DeltaConcurrentModificationException, InvalidInput
from rowlock.version import VERSION

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
    parts: dict[str, dict[str, Any]] = {
        "delta.tables": {kind.__name__: kind for kind in _TABLES},
        "delta.exceptions": {
            n: kind for n, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, DeltaConcurrentModificationException)
        },
        "delta.pip_utils": {"configure_spark_with_delta_pip": configure_spark_with_delta_pip},
        "delta.version": {"__version__": VERSION},
    }
    parts["delta"] = {
        "DeltaTable": DeltaTable,
        "configure_spark_with_delta_pip": configure_spark_with_delta_pip,
        "__version__": VERSION,
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
