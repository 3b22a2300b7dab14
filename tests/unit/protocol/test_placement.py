"""What is believed of a remove's word for where its rows went."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rowlock.protocol.actions import Placement, RemoveFile, placement_of


def removed(tags: dict[str, str] | None) -> RemoveFile:
    return RemoveFile("a", 0, True, tags=tags)


def test_our_own_word_is_believed() -> None:
    place = Placement("out", 7, 3)
    assert placement_of(removed(place.tags())) == place


@pytest.mark.parametrize(
    "info",
    [
        {"writer": "rowlock", "offset": 7, "rows": 3},
        {"writer": "rowlock", "format": 1, "offset": 7, "rows": 3},
        {"writer": "other", "format": 2, "offset": 7, "rows": 3},
        [],
        {},
    ],
)
def test_no_other_word_is(info: Any) -> None:
    """I3, I9: the first format took the order of large outputs for granted, which was wrong in partitioned tables."""
    assert placement_of(removed({"compactedInto": "out", "compactionInfo": orjson.dumps(info).decode()})) is None
    assert placement_of(removed(None)) is None and placement_of(removed({"compactedInto": "out", "compactionInfo": "{"})) is None
