"""Reads Delta's settings from a Spark session, as they are at this moment, and writes those that a commit changes."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import Any

from rowlock.engines.spark.session.connect_server import is_connect, jvm_is_alive
from rowlock.exceptions import SettingWarning
from rowlock.parquet.compression import SETTING
from rowlock.protocol.session_settings import PREFIX, Settings

_NAMES = re.compile(rf"(?:{re.escape(PREFIX)}[A-Za-z0-9_.\-]+|{re.escape(SETTING)})(?==)")
"""What is to be read: Delta's own settings, and the one of Spark's that is for data files."""
LAST_VERSION = "lastCommitVersionInSession"
"""What Rowlock sets itself after each commit."""
_NONE = Settings()
_process = os.getpid()
_warned: set[str] = set()


def settings_of(spark: Any) -> Settings:
    """The settings that a session has now, classic or of Spark Connect.  What can change no result here is named in a warning, once in a process.

    Two round trips where none is set.
    """
    found = _of_connect(spark) if is_connect(spark) else _of_classic(spark)
    if not found:
        return _NONE
    settings = Settings(found)
    for name, text in settings.without_effect().items():
        if name not in _warned:
            _warned.add(name)
            warnings.warn(text, SettingWarning, stacklevel=2)
    return settings


def _of_classic(spark: Any) -> dict[str, str]:
    """By names without PREFIX.  All settings come as one text, which is searched for names: asking for each known one is a round trip each."""
    names = set(_NAMES.findall(str(spark.conf._jconf.getAllAsJava().toString()))) - {PREFIX + LAST_VERSION}
    values = {name: spark.conf.get(name, None) for name in sorted(names)}
    return {name.removeprefix(PREFIX): str(value) for name, value in values.items() if value is not None}


def _of_connect(spark: Any) -> dict[str, str]:
    return {str(name).removeprefix(PREFIX): str(value) for name, value in spark.conf.getAll.items() if str(name) == SETTING or str(name).startswith(PREFIX)}


def set_in(spark: Any, name: str, value: str | None) -> None:
    """Sets one of Delta's settings in a session, or unsets it."""
    if value is None:
        spark.conf.unset(PREFIX + name)
    else:
        spark.conf.set(PREFIX + name, value)


def session_of_process() -> Any:
    """The Spark session that a call without one goes by: the active one, else the default one.

    None where this process has none that lives, and in a forked child, whose parent's it is.
    """
    if "pyspark" not in sys.modules or os.getpid() != _process:
        return None
    from pyspark.sql import SparkSession

    default = getattr(SparkSession, "_instantiatedSession", None)
    if default is None or getattr(default._sc, "_jsc", None) is None or not jvm_is_alive(default):
        return None
    return SparkSession.getActiveSession() or default
