"""Who writes: host, process and application, which every commit and every record of a failed try carries for people to read.

It decides nothing.  The application is the first of these that says something: the environment variable
ROWLOCK_APPLICATION, the name of the Spark application, the name of the program.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

VARIABLE = "ROWLOCK_APPLICATION"
_LONGEST = 200
_USUAL_NAMES = ("", "rowlock", "pyspark-shell", "Spark Connect server")
"""Names that sessions have whose user gave them none."""

_session_name: ContextVar[Callable[[], str] | None] = ContextVar("asks the session of this call for its application's name", default=None)


@contextmanager
def in_session(name: Callable[[], str]) -> Iterator[None]:
    """The commits of the block are of the application that `name` says; it is asked for each commit, so it must be quick."""
    token = _session_name.set(name)
    try:
        yield
    finally:
        _session_name.reset(token)


def writer() -> dict[str, Any]:
    """Plain values for commitInfo: `host`, `process` (its id) and `application`."""
    return {"host": _text(_host()), "process": os.getpid(), "application": _text(_application())}


def _text(name: str) -> str:
    """A name as a commit can hold it: names of files and variables may be no UTF-8."""
    return name[:_LONGEST].encode("utf-8", "replace").decode()


def _application() -> str:
    if named := os.environ.get(VARIABLE, "").strip():
        return named
    ask = _session_name.get()
    name = "" if ask is None else ask()
    return _program() if name in _USUAL_NAMES else name


@functools.cache
def _host() -> str:
    return socket.gethostname()


def _program() -> str:
    """The name of the script or module that the interpreter runs."""
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("-c", "-") else "python")
    return path.parent.name if path.name == "__main__.py" else path.name
