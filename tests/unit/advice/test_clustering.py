"""Which keys are advised: by the conditions of both engines' statements, only columns that can be keys, and only where it helps."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import rowlock
from rowlock.advice.advice import advise
from rowlock.advice.history import History, Layout, in_order, run_of_commit
from rowlock.advice.keys import ENOUGH_STATEMENTS, advised_keys, comparisons
from rowlock.advice.read_history import read_history
from rowlock.cli.conflicts import print_advice
from rowlock.storage.open import open_store

KEYS = (("id",), ("Day",), ("city", "zip code"), ("v",))
LARGE = Layout(keys=KEYS, size_bytes=10 << 30)


def history(*predicates: tuple[str, int], layout: Layout = LARGE, operation: str = "DELETE", partitioned: bool = False) -> History:
    """A history of statements with these conditions, each so many times."""
    infos = [{"operation": operation, "operationParameters": {"predicate": text}, "readVersion": 0} for text, times in predicates for _ in range(times)]
    return History("/t`s", in_order(run_of_commit(n + 1, info) for n, info in enumerate(infos)), {}, ("p",) if partitioned else (), layout=layout)


@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        ("""["(id#480L = 5)"]""", [("id",)]),
        ("""["(id = CAST(5 AS BIGINT))"]""", [("id",)]),
        ("""["((DAY#13 >= 2024-01-01) AND (w#2 > 3))"]""", []),  # 2024-01-01 is no literal there: it is a difference
        ("""["((DAY#13 >= DATE '2024-01-01') AND (w#2 > 3))"]""", [("Day",)]),
        ("((t.city.`zip code` = s.`zip code`) AND (t.w = s.w))", [("city", "zip code")]),
        ("""["(city#7.`zip code` IN (1,2))"]""", [("city", "zip code")]),
        ("w = 3", []),
        ("upper(v) = 'A'", []),
        ("((((", []),
    ],
)
def test_conditions_of_both_engines_name_keys(predicate: str, keys: list[tuple[str, ...]]) -> None:
    assert list(advised_keys(history((predicate, ENOUGH_STATEMENTS))).keys) == keys


def test_a_column_is_a_key_if_it_is_worth_its_place() -> None:
    both, found = ("id = 1 AND v > 2", 40), advised_keys
    assert found(history(("id = 1", ENOUGH_STATEMENTS - 1))).keys == (), "too few for advice"
    assert found(history(("id = 1", 60), ("v = 1", 40))).keys == (("id",), ("v",))
    assert found(history(("id = 1", 96), ("v = 1", 4))).keys == (("id",),), "few name v"
    assert found(history(both, ("id = 1", 60))).keys == (("id",),), "who names v names id, too"
    assert found(history(both, ("id = 1", 10))).keys == (("id",), ("v",)), "most name both"
    assert len(found(history(*((f"c{n} = 1", 20) for n in range(6)), layout=replace(LARGE, keys=tuple((f"c{n}",) for n in range(6))))).keys) == 4


def test_moves_ask_for_nothing() -> None:
    assert advised_keys(History("t", [replace(r, moves=True) for r in history(("id = 1", 50)).runs], layout=LARGE)).statements == 0


def reason(given: History) -> tuple[str, tuple[str, ...]]:
    found = advise(given)
    return next((r.text for r in found.reasons if r.topic == "clustering"), ""), found.statements


def test_what_is_said() -> None:
    asked = ("t.id = s.id", 30), ("city.`zip code` < 3", 20)
    text, lines = reason(history(*asked))
    assert text.startswith("Of 50 conditions in statements, so many name a column: id in 30 (30 joins); city.`zip code` in 20.")
    assert lines == ("ALTER TABLE delta.`/t``s` CLUSTER BY (id, city.`zip code`)", "OPTIMIZE delta.`/t``s` FULL")
    assert reason(history(*asked, layout=replace(LARGE, clustered_by=(("city", "zip code"), ("id",))))) == (f"{text} It is clustered by them.", ())
    small = reason(history(*asked, layout=replace(LARGE, size_bytes=1 << 30)))
    assert small[1] == () and "too early" in small[0]
    assert reason(history(*asked, partitioned=True))[1] == ("OPTIMIZE delta.`/t``s` ZORDER BY (id, city.`zip code`)",)
    assert reason(history(("w = 1", 50))) == ("", ())


def test_the_lines_are_printed() -> None:
    given = history(("id = 1", 30))
    out = io.StringIO()
    print_advice(given, advise(given), Console(file=out, width=100, force_terminal=False))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[lines.index("ALTER TABLE delta.`/t``s` CLUSTER BY (id)") + 1] == "OPTIMIZE delta.`/t``s` FULL"
    assert advise(given).as_json()["statements"][0].startswith("ALTER TABLE")


def test_keys_are_read_from_the_table(tmp_path: Any) -> None:
    """Partition columns, columns without statistics or without an order are none."""
    row = {"p": 1, "a": 1, "s": {"x": "1", "y": [1]}, "f": True, "late": 2}
    path = str(tmp_path / "t")
    rowlock.append(path, pa.Table.from_pylist([row]), partition_by=["p"], properties={"delta.dataSkippingNumIndexedCols": "4", "delta.targetFileSize": "4kb"})
    found = read_history(open_store(path)).layout
    assert found.keys == (("a",), ("s", "x")) and found.clustered_by == () and found.target_bytes == 4096 and found.size_bytes > 0


def test_the_path_is_kept() -> None:
    assert [c for c, _, _ in comparisons("a.b.c = 1 AND t.`d.e` > 2")] == [("a", "b", "c"), ("t", "d.e")]
