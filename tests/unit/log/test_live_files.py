"""The live files against a plain dict. I4: at most one file lives per path; a remove cancels only the (path, vector) that it names."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from rowlock.limits import limited
from rowlock.log import frames
from rowlock.log.live_files import LiveFiles, fold
from rowlock.protocol.actions import AddFile, DeletionVectorDescriptor, FileKey
from rowlock.protocol.predicates import And, Column, In, IsNull, Like, Not, Or, Predicate, compare
from rowlock.protocol.schema import PrimitiveType, StructField, StructType

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200")) // 2
PATHS = [f"f{i}" for i in range(8)]
VECTORS = [None, *(DeletionVectorDescriptor("u", "x" * 20, i, 10, i) for i in (1, 2))]


def add(path: str, vector: int = 0, size: int = 1) -> AddFile:
    return AddFile(path, {"p": path[-1], "q": None}, size, 5, True, '{"numRecords":3}', VECTORS[vector], {"t": "1"} if size > 1 else None, size, None, None)


changes = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(PATHS), st.integers(0, 2)), max_size=4),
        st.lists(st.tuples(st.sampled_from(PATHS), st.integers(0, 2), st.integers(1, 9)), max_size=4, unique_by=lambda a: a[0]),
    ),
    max_size=8,
)


def reference(history: list[tuple[list[FileKey], list[AddFile]]]) -> dict[str, AddFile]:
    live: dict[str, AddFile] = {}
    for removes, adds in history:
        for key in removes:
            if key[0] in live and live[key[0]].key == key:
                del live[key[0]]
        live.update((a.path, a) for a in adds)
    return live


@settings(max_examples=CASES)
@given(changes, st.integers(0, 3), st.booleans())
def test_apply_and_fold_agree_with_a_dict(drawn: list[tuple[list[tuple[str, int]], list[tuple[str, int, int]]]], overlay: int, start_as_columns: bool) -> None:
    history = [([add(p, v).key for p, v in removes], [add(*a) for a in adds]) for removes, adds in drawn]
    with limited(changed_files=overlay):
        start = [add(p) for p in PATHS[:3]]
        first = LiveFiles.of_frames([frames.from_adds(start)]) if start_as_columns else LiveFiles.of_adds(start)
        files = first
        for removes, adds in history:
            files = files.apply(removes, adds)
        folded = fold(history, first)
    expected = reference([([], start), *history])
    for result in (files, folded):
        assert {a.path: a for a in result.adds()} == expected == result.get(PATHS)
        assert len(result) == len(expected) and result.total_size_bytes == sum(a.size_bytes for a in expected.values())
        assert all((p in result) == (p in expected) for p in PATHS)
    assert {a.path for a in first.adds()} == set(PATHS[:3]), "a snapshot never changes"


SCHEMA = StructType(
    (
        StructField("day", PrimitiveType("date")),
        StructField("k", PrimitiveType("string")),
        StructField("id", PrimitiveType("long")),
        StructField("s", PrimitiveType("string")),
    )
)


def many(n: int) -> list[AddFile]:
    def stats(i: int) -> str | None:
        return (
            None
            if i % 10 == 9
            else f'{{"numRecords":10,"minValues":{{"id":{i * 10},"s":"s{i:04d}"}},"maxValues":{{"id":{i * 10 + 9},"s":"s{i:04d}"}},"nullCount":{{"id":0,"s":0}}}}'
        )

    return [AddFile(f"f{i}", {"day": f"2020-01-{i % 20 + 1:02d}", "k": None if i % 7 == 0 else f"k{i % 3}"}, 1, 1, True, stats(i)) for i in range(n)]


@pytest.mark.parametrize(
    "predicate",
    [
        compare("=", ("id",), 55),
        compare(">", ("id",), 9000),
        And((compare(">=", ("id",), 100), compare("<", ("id",), 130))),
        In(Column(("id",)), (5, 995)),
        compare("=", ("S",), "s0003"),
        Like(Column(("s",)), "s000"),
        compare("=", ("k",), "k1"),
        IsNull(Column(("k",))),
        And((compare("=", ("k",), "k1"), compare("<", ("id",), 50))),
        Or((compare("=", ("k",), "k1"), compare("<", ("id",), 50))),
        Not(Or((compare("=", ("k",), "k1"), compare(">", ("id",), 50)))),
        compare("=", ("id",), "text"),
    ],
    ids=str,
)
def test_prune_in_columns_is_prune_one_by_one(predicate: Predicate) -> None:
    adds = many(1000)
    columns, values = LiveFiles.of_frames([frames.from_adds(adds)]), LiveFiles.of_adds(adds)
    by_columns = {a.path for a in columns.prune(predicate, SCHEMA, ["day", "k"])}
    assert by_columns == {a.path for a in values.prune(predicate, SCHEMA, ["day", "k"])}
    assert by_columns and (len(by_columns) < 1000 or "text" in str(predicate))
    assert len(columns.prune(None, SCHEMA, ["day", "k"])) == 1000


def test_statistics_that_do_not_read_keep_their_files() -> None:
    adds = many(600)
    adds[3] = replace(adds[3], stats='{"minValues":{"id":"x"}}')
    adds[4] = replace(adds[4], stats="{broken")
    kept = {a.path for a in LiveFiles.of_frames([frames.from_adds(adds)]).prune(compare("=", ("id",), 77), SCHEMA, ["day", "k"])}
    assert {"f3", "f4", "f7", "f9"} <= kept and "f8" not in kept


def test_partition_values_without_a_zone_keep_their_files() -> None:
    import datetime as dt

    schema = StructType((StructField("t", PrimitiveType("timestamp")), StructField("x", PrimitiveType("long"))))
    files = LiveFiles.of_adds(
        [AddFile("old", {"t": "2020-01-01 00:00:00"}, 1, 1, True, None), AddFile("new", {"t": "2020-01-01T00:00:00.000000Z"}, 1, 1, True, None)]
    )
    noon = compare("=", ("t",), dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC))
    assert [a.path for a in files.prune(noon, schema, ["t"])] == ["old"]
