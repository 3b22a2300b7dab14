"""Paths are spelled in one place. I4: two spellings of one file are one key."""

from __future__ import annotations

import itertools
import posixpath
import re
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from rowlock.exceptions import InvalidInput
from rowlock.log import frames
from rowlock.log.table_log import TableLog
from rowlock.protocol import action_json, paths
from rowlock.storage.local import LocalStore


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1))
def test_encode_and_decode_are_inverse(path: str) -> None:
    real = paths.decode(paths.encode(path))
    assert real == path or re.search(paths.NOT_CANONICAL, path), "only steps that lead nowhere are left out"
    assert paths.decode(paths.encode(real)) == real
    assert not set(paths.encode(path)) & set(' "#<>?[\\]^`{|}')


@pytest.mark.parametrize("path", ["//", "a//b", "./a", "a/./b"])
def test_steps_that_lead_nowhere_are_no_second_key(path: str) -> None:
    assert paths.decode(paths.encode(path)) == paths.decode(path) == posixpath.normpath(path).replace("//", "/")


def test_a_path_that_is_taken_as_it_is_needs_no_work() -> None:
    """I4: every short path of these characters is one key, by the quick look of Python and of Arrow as by the whole work."""
    texts = ["".join(letters) for n in range(7) for letters in itertools.product("a./", repeat=n)] + [
        "a%20b",
        "a b",
        "ä",
        "a:b",
        "s3://a/b",
        "A_-!~'()*@&=+$,;0",
    ]
    plain = [re.match(paths.PLAIN, text) is not None for text in texts]
    assert pc.match_substring_regex(pa.array(texts), paths.PLAIN).to_pylist() == plain and plain.count(True) > 100
    for text in itertools.compress(texts, plain):
        assert text in ("", posixpath.normpath(text), posixpath.normpath(text) + "/") and paths.encode(text) == text and not paths.is_absolute(text)


@pytest.mark.parametrize(
    ("real", "log"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("a b/x.parquet", "a%20b/x.parquet"),
        ("p=a%3Ab/x.parquet", "p=a%253Ab/x.parquet"),
        ("ä/日/x.parquet", "%C3%A4/%E6%97%A5/x.parquet"),
        ("p=#?[]{}^`|/x", "p=%23%3F%5B%5D%7B%7D%5E%60%7C/x"),
        ("a:b/c:d", "a%3Ab/c:d"),
        ("s3://bucket/a b", "s3://bucket/a%20b"),
    ],
)
def test_as_uris_have_them(real: str, log: str) -> None:
    assert paths.encode(real) == log and paths.decode(log) == real


@pytest.mark.parametrize(
    ("log", "ours"),
    [("p=日/x", False), ("p=%E6%97%A5/x", True), ("p=%e6%97%a5/x", False), ("p=%41/x", False), ("a b", False), ("a%20b", True), ("p=a%253Ab/x", True)],
)
def test_another_spelling_is_kept(log: str, ours: bool) -> None:
    """delta-spark compares spellings: a file leaves the table only by the one that it came in with."""
    add = action_json.add_from({"path": log, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True})
    assert add.path == paths.decode(log) and (add.log_path is None) == ours
    assert action_json.add_json(add)["path"] == action_json.remove_json(add.removed(1, True))["path"] == log
    assert action_json.remove_json(action_json.remove_from({"path": log}))["path"] == log
    assert [a.log_path for a in frames.to_adds(frames.from_adds([add]))] == [add.log_path]


@pytest.mark.parametrize("root", ["/tmp/t x", "file:/tmp/t x", "file:///tmp/t x", "/tmp/t x/"])
def test_what_spark_reports_is_what_the_log_says(root: str) -> None:
    assert (
        paths.relative_to(root, paths.decode("file:///tmp/t%20x/p=a%253Ab/x%20y.parquet")) == paths.decode("p=a%253Ab/x%20y.parquet") == "p=a%3Ab/x y.parquet"
    )
    assert paths.relative_to(root, paths.decode("file:/elsewhere/x.parquet")) == "/elsewhere/x.parquet"


def test_absolute_and_joined() -> None:
    assert paths.is_absolute("/a") and paths.is_absolute("s3://b/a") and not paths.is_absolute("a/b") and not paths.is_absolute("a:b.parquet")
    assert paths.join("/t/", "a/b") == "/t/a/b"
    assert paths.join("/t", "file:///x/y") == "/x/y"
    assert paths.join("/t", "s3://b/a") == "s3a://b/a", "as Spark knows it"


@pytest.mark.parametrize(
    ("place", "scheme"),
    [
        ("/a/b", None),
        ("a:b", None),
        ("C:\\tables", None),
        ("file:/a", "file"),
        ("S3A://bucket/t", "s3a"),
        ("memory://t", "memory"),
        ("/a:b", None),
        ("x+y.z-1:t", "x+y.z-1"),
        ("1s3://b", None),
        ("", None),
    ],
)
def test_the_scheme_of_a_place(place: str, scheme: str | None) -> None:
    assert paths.scheme_of(place) == scheme


def test_a_place_is_told_with_its_scheme() -> None:
    assert (paths.location("/a/b"), paths.location("s3://b/t")) == ("file:/a/b", "s3://b/t")


def test_partition_directories() -> None:
    assert paths.partition_directory({"a": "x y", "b": None, "c": "1:2/3"}) == "a=x y/b=__HIVE_DEFAULT_PARTITION__/c=1%3A2%2F3"
    assert paths.partition_directory({}) == ""
    assert paths.partitions_in("/t/a=x y/b=__HIVE_DEFAULT_PARTITION__/c=1%3A2%2F3/") == ("/t", {"a": "x y", "b": None, "c": "1:2/3"})
    assert paths.partitions_in("/a=1/t") == ("/a=1/t", {})


@pytest.mark.parametrize("key", ["", "/a", "a/../b", "..", "s3://a/b", "a//b"])
def test_keys_stay_inside(key: str) -> None:
    with pytest.raises(InvalidInput):
        paths.check_key(key)


@pytest.mark.parametrize("root", ["/data/t", "s3://bucket/t", "abfss://c@a.dfs.core.windows.net/t"])
@pytest.mark.parametrize("path", ["x.parquet", "p=a%3Ab/x y.parquet", "p=./x", "p=../x", ".hidden/x", "a:b/x"])
def test_one_file_is_one_key_however_it_is_spelled(root: str, path: str) -> None:
    """I4: steps that lead nowhere, whole places, escapes; and the writer's own spelling is kept."""
    log, folder = paths.encode(path), root.rsplit("/", 1)[1]
    spellings = [log, f"./{log}", f"q/../{log}", f".//{log}", f"../{folder}/{log}", f"{root}/{log}", f"{root}//{log}", f"{root}/./{log}"]
    spellings += (
        [f"file:{root}/{log}", f"FILE://{root}/{log}"] if root.startswith("/") else [root.replace("s3:", "S3A:").replace("abfss:", "abfs:") + f"/{log}"]
    )
    for spelling in spellings:
        add = action_json.add_from({"path": spelling, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}, root)
        assert add.path == path and (add.log_path or log) == spelling, spelling
    assert paths.decode("../other/x", root) == root.rsplit("/", 1)[0] + "/other/x"


def add(path: str) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}


def test_commits_and_checkpoints_agree_on_spellings(tmp_path: Path) -> None:
    """I4: two adds of one file are one file, whichever way the log is read; a commit may spell a file anew."""
    from rowlock.log.checkpoint_writer import SCHEMA, _maps_as_pairs

    def log(name: str, *commits: list[dict[str, Any]]) -> TableLog:
        folder = tmp_path / name / "_delta_log"
        folder.mkdir(parents=True)
        for version, actions in enumerate(commits):
            (folder / f"{version:020}.json").write_bytes(b"\n".join(map(orjson.dumps, actions)))
        return TableLog(LocalStore(tmp_path / name))

    def live(of: TableLog) -> list[tuple[str, str | None]]:
        files = of.latest().files
        assert len(files) == len(list(files.adds()))
        return sorted((f.path, f.log_path) for f in files.adds())

    table: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": '{"type":"struct","fields":[]}',
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    remove = {"remove": {"path": "f", "deletionTimestamp": 1_900_000_000_000, "dataChange": True}}
    assert (
        live(log("anew", [*table, add("f")], [remove, add("./f")]))
        == live(log("anew the other way round", [*table, add("f")], [add("./f"), remove]))
        == [("f", "./f")]
    )
    two = log("two", [*table, add("f")], [add("./f")])
    assert live(two) == [("f", "./f")]
    other = log("checkpoint", [], [])
    rows = [*table, add("f"), add("./f"), add("g")]
    arrays = [pa.array([_maps_as_pairs(r[f.name]) if f.name in r else None for r in rows], f.type) for f in SCHEMA]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), tmp_path / "checkpoint" / "_delta_log" / f"{1:020}.checkpoint.parquet")
    (tmp_path / "checkpoint" / "_delta_log" / "_last_checkpoint").write_bytes(orjson.dumps({"version": 1, "size": len(rows)}))
    assert live(other) == [("f", "./f"), ("g", None)]
