"""Data files and vectors that a table names by their whole place, as a shallow clone does: read rightly, or refused by name (I5, I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock
from rowlock.exceptions import InvalidInput
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol import names, paths
from rowlock.storage import ObjectStore, open_store

SPELLINGS = ["s3", "s3a", "s3n"]


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("file:///a/b%20c", "/a/b c"),
        ("file:/a/b", "/a/b"),
        ("/a/b", "/a/b"),
        ("s3a://bucket/a%2520b", "s3://bucket/a%20b"),
        ("S3N://bucket/a", "s3://bucket/a"),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a"),
        ("s3a=1/part", "s3a=1/part"),
        ("file:a", "file:a"),
    ],
)
def test_spellings_of_a_place_are_one(spelled: str, canonical: str) -> None:
    """I4: an add and a remove of one file, spelled by two writers; what is written keeps the log's own spelling."""
    assert paths.decode(spelled) == canonical
    assert paths.encode(canonical) == spelled or paths.decode_with_spelling(spelled, None)[1] == spelled


@pytest.mark.parametrize("root", ["s3://b/t", "s3a://b/t"])
@pytest.mark.parametrize("scheme", SPELLINGS)
def test_a_place_below_the_root_is_below_it_however_it_is_spelled(root: str, scheme: str) -> None:
    """I10: VACUUM knows live files by it."""
    assert paths.relative_to(root, f"{scheme}://b/t/p=1/f") == "p=1/f"
    assert paths.relative_to(root, f"{scheme}://b/tt/f") == "s3://b/tt/f"
    assert paths.join(root, f"{scheme}://b/tt/f") == f"{root.split(':')[0]}://b/tt/f", "Spark is asked by the connector that the root has"
    assert paths.join("/local", f"{scheme}://b/f") == "s3a://b/f"


def clone(source: ObjectStore, to: ObjectStore, place: str) -> None:
    """A table at `to` with the log of another, whose files are named by their whole place."""
    for meta in list(source.list("_delta_log")):
        if meta.key.endswith(".json"):
            body = source.get(meta.key).replace(b'"path":"', f'"path":"{place}/'.encode())
            to.put(meta.key, body)


@pytest.fixture(params=["local", *SPELLINGS])
def cloned(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, dict[str, str]]:
    """(root of the source, root of the clone, options)."""
    options: dict[str, str] = {}
    roots = [str(tmp_path / "source"), str(tmp_path / "clone")]
    place = f"file://{roots[0]}"
    if request.param != "local":
        server = request.getfixturevalue("minio")
        options, roots = server.storage_options, [server.fresh_root() + "/a b", server.fresh_root()]
        place = request.param + roots[0].removeprefix("s3").replace(" ", "%20")
    rowlock.append(roots[0], pa.table({"id": pa.array(range(10), pa.int64())}), storage_options=options)
    clone(open_store(roots[0], options), open_store(roots[1], options), place)
    return roots[0], roots[1], options


def ids(root: str, options: dict[str, str]) -> list[int]:
    found: Any = rowlock.to_arrow(root, storage_options=options).column("id").to_pylist()
    return sorted(found)


def test_a_clone_is_read_and_appended_to(cloned: tuple[str, str, dict[str, str]]) -> None:
    """I5: its own rows beside those of its source."""
    source, root, options = cloned
    assert ids(root, options) == list(range(10))
    rowlock.append(root, pa.table({"id": pa.array([10], pa.int64())}), storage_options=options)
    assert ids(root, options) == list(range(11)) and ids(source, options) == list(range(10))
    assert vacuum(TableLog(open_store(root, options)), retention_hours=0, check_retention=False).files == ()
    assert ids(root, options) == list(range(11))


def test_a_file_of_the_table_itself_by_its_whole_place_is_live(cloned: tuple[str, str, dict[str, str]]) -> None:
    """I10: as other writers' conversions name them."""
    source, _, options = cloned
    store = open_store(source, options)
    place = source if source.startswith("/") else "s3a" + source.removeprefix("s3").replace(" ", "%20")
    clone(store, store, place)
    again = open_store(source, options)
    assert vacuum(TableLog(again), retention_hours=0, check_retention=False).files == ()
    assert ids(source, options) == list(range(10))


@pytest.mark.parametrize("place", ["hdfs://namenode/t", "dbfs:/t", "s3://", "nothing:/t"])
def test_a_place_that_cannot_be_reached_is_named(place: str, tmp_path: Path) -> None:
    """I9: table, file and remedy, and nothing is written."""
    source, root = str(tmp_path / "source"), str(tmp_path / "clone")
    rowlock.append(source, pa.table({"id": pa.array([1], pa.int64())}))
    clone(open_store(source), open_store(root), place)
    with pytest.raises(InvalidInput, match="names a file by its absolute path") as e:
        rowlock.to_arrow(root)
    assert root in str(e.value) and place in str(e.value) and "deep clone" in str(e.value)
    assert open_store(root).head(names.commit_key(1)) is None
