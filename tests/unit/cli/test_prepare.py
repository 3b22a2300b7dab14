"""`rowlock prepare`: what it makes is what the next session's JVM reads its classes from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[3] / "src"


@pytest.mark.soak("two JVMs, of which one writes 170 MB; which file is taken has tests without a JVM")
def test_the_next_session_reads_what_was_made(tmp_path: Path) -> None:
    log = tmp_path / "classes.log"
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "rowlock.cli.main", "prepare"], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "SharedArchiveFile" in done.stdout
    environment["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Xlog:class+load:file={log}"
    program = "import rowlock; print(rowlock.spark(cores=1, memory_mb=768).range(5).count())"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip().endswith("5")
    assert log.read_text().count("org.apache.spark") > 1000
    assert sum("shared objects file (top)" in line and "org.apache.spark" in line for line in log.read_text().splitlines()) > 1000
