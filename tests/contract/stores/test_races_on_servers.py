"""I1 on real servers: 16 writers put the same keys at once, and each key has one winner, whose bytes are there.

MinIO, fake-gcs-server (1.56) and Azurite (3.35) all keep their conditions; the two emulators are slower and get fewer keys.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowlock.storage import Committed, Lost, ObjectStore, PutOutcome, open_store

WRITERS = 16


@pytest.mark.parametrize(
    ("server", "keys"), [("minio", 80), ("gcs", 30), ("azurite", 30), pytest.param("minio", 300, marks=pytest.mark.soak("more keys of the same race", ci=True))]
)
def test_one_writer_wins_each_key(server: str, keys: int, request: pytest.FixtureRequest) -> None:
    there = request.getfixturevalue(server)
    root = there.fresh_root()
    stores: list[ObjectStore] = [open_store(root, there.storage_options) for _ in range(WRITERS)]
    barrier = threading.Barrier(WRITERS)

    def put(writer: int) -> list[PutOutcome]:
        out = []
        for key in range(keys):
            if key % 10 == 0:
                barrier.wait()  # so that nobody runs ahead
            out.append(stores[writer].put_if_absent(f"log/{key:03}", b"%d" % writer))
        return out

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = list(pool.map(put, range(WRITERS)))
    assert {type(o) for of_writer in outcomes for o in of_writer} == {Committed, Lost}, "a local server is never unclear"
    for key in range(keys):
        winners = [w for w in range(WRITERS) if outcomes[w][key] == Committed()]
        assert len(winners) == 1, f"{server}: {len(winners)} winners of key {key}"
        assert stores[0].get(f"log/{key:03}") == b"%d" % winners[0]
