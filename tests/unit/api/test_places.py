"""The place of a table, as every public call takes it: one that no table can have is named with what to do, and one folder is one table however it is spelled."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock
from rowlock.exceptions import InvalidInput, RowlockError, StorageError, TableExists, TableNotFound
from rowlock.storage import open_store

ROWS = pa.table({"id": [1]})
READERS: dict[str, Callable[[Any, Any], Any]] = {"to_arrow": lambda spark, place: rowlock.to_arrow(place)}
WRITERS: dict[str, Callable[[Any, Any], Any]] = {"append": lambda spark, place: rowlock.append(place, ROWS)}
SPARK_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "read": lambda spark, place: rowlock.read(spark, place),
    "forPath": lambda spark, place: rowlock.DeltaTable.forPath(spark, place),
    "replace": lambda spark, place: rowlock.DeltaTable.replace(spark).location(place).addColumn("id", "int").execute(),
}
SPARK_WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "write": lambda spark, place: rowlock.write(spark.range(1), place),
    "create": lambda spark, place: rowlock.DeltaTable.create(spark).location(place).addColumn("id", "int").execute(),
    "createIfNotExists": lambda spark, place: rowlock.DeltaTable.createIfNotExists(spark).location(place).addColumn("id", "int").execute(),
    "createOrReplace": lambda spark, place: rowlock.DeltaTable.createOrReplace(spark).location(place).addColumn("id", "int").execute(),
}
ENTRIES = [
    *((name, call, False) for name, call in READERS.items()),
    *((name, call, True) for name, call in WRITERS.items()),
    *(pytest.param(name, call, False, marks=pytest.mark.spark) for name, call in SPARK_READERS.items()),
    *(pytest.param(name, call, True, marks=pytest.mark.spark) for name, call in SPARK_WRITERS.items()),
]
IMPOSSIBLE = {
    "": "path is empty",
    "a\0b": "NUL character",
    "/lake/\udcff": "is no UTF-8.* Rename the folder|location holds .* half of a pair of surrogates",
    "~/sales": r"begins with '~', which only a shell .* os.path.expanduser\('~/sales'\), or './~/sales'",
    "~nobody/sales": "begins with '~nobody'",
    "file:": "names a folder of this machine by its whole path",
    "file:///": "names a folder of this machine",
    "file:sales": "names a folder of this machine",
    "file://host/sales": "names a folder of this machine",
    "file:///lake/%FF": "are no UTF-8",
    "file:///lake/a%00b": "NUL character",
    "ftp://host/sales": r"ftp: (is not supported|tables are reached through the Hadoop client of a Spark session)",
    "s3://bucket": "a table must be in a folder of a bucket",
}


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Any:
    """The Spark session, for entries that need one."""
    return request.getfixturevalue("spark") if request.node.get_closest_marker("spark") else None


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


@pytest.mark.parametrize(("name", "call", "writes"), ENTRIES)
def test_a_place_that_no_table_can_have(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: Any, writes: bool) -> None:
    monkeypatch.chdir(tmp_path)
    for place, text in IMPOSSIBLE.items():
        with pytest.raises(InvalidInput, match=text):
            call(session, place)
    assert files(tmp_path) == set()


@pytest.mark.parametrize(("name", "call", "writes"), ENTRIES)
def test_a_file(session: Any, tmp_path: Path, name: str, call: Any, writes: bool) -> None:
    """I9: also a place below a file, which cannot be made."""
    (tmp_path / "file").write_bytes(b"x")
    for place in ("file", "file/below", "file/far/below"):
        with pytest.raises(TableExists if writes else TableNotFound) as e:
            call(session, str(tmp_path / place))
        assert e.value.table == str(tmp_path / place)
        assert not writes or f"{tmp_path}/file is a file" in str(e.value)
    assert files(tmp_path) == {"file"}


@pytest.mark.parametrize(("name", "call"), [*READERS.items(), *(pytest.param(n, c, marks=pytest.mark.spark) for n, c in SPARK_READERS.items())])
def test_nothing_there(session: Any, tmp_path: Path, name: str, call: Any) -> None:
    (tmp_path / "folder").mkdir()
    for place in ("folder", "nowhere"):
        with pytest.raises(TableNotFound, match=r"(no Delta table here: correct the path|no table to replace)") as e:
            call(session, str(tmp_path / place))
        assert e.value.table == str(tmp_path / place)
    assert files(tmp_path) == {"folder"}


SPELLED = [
    "{0}/sales of 100%",
    "{0}/sales of 100%/",
    "{0}//x/../sales of 100%",
    "file:{0}/sales of 100%25",
    "file://{0}/sales%20of%20100%25/",
    "FILE://localhost{0}/sales of 100%25",
]


@pytest.mark.parametrize("place", SPELLED)
def test_one_folder_is_one_table(tmp_path: Path, place: str) -> None:
    rowlock.append(str(tmp_path / "sales of 100%"), ROWS)
    assert rowlock.append(place.format(tmp_path), ROWS).version == 1
    assert rowlock.to_arrow(place.format(tmp_path)).num_rows == 2
    assert files(tmp_path) & {"sales of 100%", "sales", "x"} == {"sales of 100%"} == {p.name for p in tmp_path.iterdir()}


def test_a_store_in_memory_has_one_name() -> None:
    assert open_store("memory://one-name/") is open_store("memory://one-name")


def test_a_tilde_that_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("./~x", str(tmp_path / "~x"), "a~"):
        rowlock.append(place, ROWS)
    assert {p.name for p in tmp_path.iterdir()} == {"~x", "a~"}


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.EACCES, "give it access to the table's folder"), (errno.ENOSPC, "the disk is full: make room"), (errno.EIO, "may be run again")]
)
def test_what_the_disk_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str) -> None:
    """I2, I9: table, file and remedy; nothing is committed, and the table can be written again."""
    path = str(tmp_path / "t")
    rowlock.append(path, ROWS)
    opened = os.open

    def refused(place: Any, flags: int, *more: Any, **how: Any) -> int:
        if flags & os.O_WRONLY and str(place).startswith(path):
            raise OSError(code, os.strerror(code), str(place))
        return opened(place, flags, *more, **how)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        with pytest.raises(StorageError, match=remedy) as e:
            rowlock.append(path, ROWS)
    assert issubclass(StorageError, RowlockError) and e.value.table == path and e.value.file is not None and e.value.file.endswith(".parquet")
    assert isinstance(e.value.__cause__, OSError)
    assert rowlock.append(path, ROWS).version == 1 and rowlock.to_arrow(path).num_rows == 2


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    rowlock.append(path, ROWS)

    def refused(place: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(place))

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refused)
        patched.setattr(os, "stat", refused)
        with pytest.raises(StorageError, match=r"could not (list|look at) _delta_log.*: Permission denied; .*give it access") as e:
            rowlock.to_arrow(str(tmp_path / "t" / "."))
    assert e.value.table == path
