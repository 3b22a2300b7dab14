"""The classes are compiled once for each version of Spark and each source, several processes may do so at once, and a home that cannot be written is no obstacle."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from rowlock.engines.spark.session import compiled
from rowlock.exceptions import RowlockError


def content(source: str = "rowlock") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as jar:
        jar.writestr("a", "b")
    return out.getvalue()


def test_it_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls: list[int] = []

    def compile_(source: str) -> bytes:
        calls.append(1)
        return content()

    first = compiled.compiled_jar("rowlock", "4.2.0", compile_)
    assert compiled.compiled_jar("rowlock", "4.2.0", compile_) == first and len(calls) == 1
    assert compiled.compiled_jar("rowlock", "4.2.1", compile_) != first
    assert sorted(p.name for p in first.parent.iterdir()) == sorted(p.name for p in first.parent.glob("rowlock-*.jar"))  # nothing half written is left


def test_what_another_process_left_half_written_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jar = compiled.compiled_jar("rowlock", "4.2.0", content)
    jar.write_bytes(b"PK")
    assert zipfile.is_zipfile(compiled.compiled_jar("rowlock", "4.2.0", content))


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RowlockError("none")

    monkeypatch.setattr(compiled, "cache_folder", none)
    made = content()
    assert compiled.compiled_jar("rowlock", "4.2.0", lambda source: made).read_bytes() == made


@pytest.mark.parametrize("source", compiled.SOURCES)
def test_the_source_is_short_enough_to_be_read(source: str) -> None:
    assert len(compiled.source_file(source).read_text().splitlines()) < 450
