"""Offsets of streams: their text is delta-spark's and stays the same, and what is none is refused (I2, I9)."""

from __future__ import annotations

import orjson
import pytest

from rowlock.api.stream_source.walk import AFTER_CHANGE, CHANGE, NOTHING, Position, StreamOffset, parse
from rowlock.exceptions import InvalidInput

DELTA = '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":7,"index":-1,"isStartingVersion":false}'


@pytest.mark.parametrize("at", [Position(0), Position(3, 8), Position(4, 0, initial=True), Position(3, CHANGE), Position(3, AFTER_CHANGE)])
@pytest.mark.parametrize("start", [None, Position(2), Position(2, initial=True)])
def test_what_is_written_is_read(at: Position, start: Position | None) -> None:
    offset = StreamOffset("t", at, start)
    assert parse(offset.text(), "/t") == offset


def test_the_text_of_an_offset_is_delta_sparks() -> None:
    assert StreamOffset("t", Position(7)).text() == DELTA
    assert parse(DELTA, "/t") == StreamOffset("t", Position(7))


def test_the_index_before_all_files_in_delta_sparks_newer_form() -> None:
    text = DELTA.replace('"sourceVersion":1', '"sourceVersion":3').replace('"index":-1', '"index":-100')
    assert parse(text, "/t").at == Position(7, NOTHING)


def test_offsets_at_a_change_of_the_columns_are_delta_sparks() -> None:
    theirs = DELTA.replace('"sourceVersion":1', '"sourceVersion":3').replace('"index":-1', '"index":-20')
    assert StreamOffset("t", Position(7, CHANGE)).text() == theirs and parse(theirs, "/t").at == Position(7, CHANGE)


@pytest.mark.parametrize(
    "text",
    ["", "7", "{}", "[]", '{"version":7}', DELTA.replace('"index":-1', '"index":"x"'), DELTA.replace('Version":1', 'Version":2')],
)
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="another checkpoint"):
        parse(text, "/t")


def test_positions_are_in_the_order_of_reading() -> None:
    assert Position(1, NOTHING) < Position(1, CHANGE) < Position(1, AFTER_CHANGE) < Position(1, 0) < Position(1, 1) < Position(2, NOTHING)


def test_other_keys_are_left_alone() -> None:
    more = orjson.dumps(orjson.loads(DELTA) | {"later": 1}).decode()
    assert parse(more, "/t") == parse(DELTA, "/t")
