"""The archive of Spark's classes: one that is cut off, or another Java's, is not used, since it may never stop a session from starting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowlock.engines.spark.session import java
from rowlock.engines.spark.session.java import Archive, Recording, archive
from rowlock.exceptions import RowlockError


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that comes without an archive of its own, and writes one that is asked for."""
    home = tmp_path / "java"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\n[ "$1" = -Xshare:dump ] || exit 1\necho classes > "${2#-XX:SharedArchiveFile=}"\n')
    program.chmod(0o755)
    (home / "release").write_text("25")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def recorded(folder: Path) -> Archive:
    recording = Recording(folder)
    Path(recording.java_options[1].removeprefix("-XX:ArchiveClassesAtExit=")).write_text("Spark's classes")
    return recording.finish()


def test_what_was_recorded_is_read(java_home: Path, tmp_path: Path) -> None:
    assert archive(tmp_path) is None
    made = recorded(tmp_path)
    assert archive(tmp_path) == made
    assert made.base is not None
    assert made.java_options[0] == f"-XX:SharedArchiveFile={made.base}{os.pathsep}{made.top}"
    assert made.size_bytes == len("classes\n") + len("Spark's classes")


def test_a_java_with_an_archive_of_its_own_needs_no_base(java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_has_own_archive", lambda: True)
    recording = Recording(tmp_path)
    Path(recording.java_options[0].removeprefix("-XX:ArchiveClassesAtExit=")).write_text("all")
    made = recording.finish()
    assert archive(tmp_path) == made == Archive(None, made.top)
    assert made.java_options[0] == f"-XX:SharedArchiveFile={made.top}"


@pytest.mark.parametrize("part", ["base", "top"])
def test_a_file_that_is_cut_off_is_not_used(java_home: Path, tmp_path: Path, part: str) -> None:
    """The JVM would crash over it."""
    file = getattr(recorded(tmp_path), part)
    file.write_bytes(file.read_bytes()[:-1])
    assert archive(tmp_path) is None


def test_another_java_has_another(java_home: Path, tmp_path: Path) -> None:
    made = recorded(tmp_path)
    (java_home / "release").write_text("26")
    assert archive(tmp_path) is None
    assert recorded(tmp_path) != made


def test_an_older_one_is_replaced(java_home: Path, tmp_path: Path) -> None:
    recorded(tmp_path)
    recording = Recording(tmp_path)
    Path(recording.java_options[1].removeprefix("-XX:ArchiveClassesAtExit=")).write_text("more of Spark's classes")
    made = recording.finish()
    assert archive(tmp_path) == made
    assert sorted(tmp_path.glob("*.jsa")) == sorted(f for f in (made.base, made.top) if f)


def test_a_java_that_writes_none_is_told(java_home: Path, tmp_path: Path) -> None:
    with pytest.raises(RowlockError, match="wrote no class archive"):
        Recording(tmp_path).finish()
    (java_home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(RowlockError, match="cannot write class archives"):
        Recording(tmp_path)
