"""The list of data paths names functions that exist; a run of the swarm would fail on another only after minutes."""

from __future__ import annotations

from collections import Counter

from model.swarm.paths import counted


def test_every_data_path_is_a_function() -> None:
    with counted(Counter()):
        pass
