"""A writer of ours in a process of its own, which is stopped at a point until it is killed.

usage: writer.py FOLDER VERSION DATA POINT OPTIONS(JSON)

POINT is `copy` (claimed, the file not in its place) or `complete` (in its place, the entry not complete).
It prints AT when it is there, and DONE where it got past it.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from rowlock.protocol.names import commit_key
from rowlock.storage import LocalStore, PutOutcome
from rowlock.storage.dynamodb import ArbitratedStore, Entry, arbitrated


def here() -> None:
    print("AT", flush=True)
    signal.pause()


class Stops(LocalStore):
    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        here()
        return super().put_if_absent(key, data)


def main(folder: str, version: str, data: str, point: str, options: str) -> None:
    store: Any = arbitrated(Stops(folder) if point == "copy" else LocalStore(folder), json.loads(options))
    assert isinstance(store, ArbitratedStore)
    if point == "complete":

        def complete(entry: Entry, ttl_s: int) -> None:
            here()

        store.entries.complete = complete  # type: ignore[method-assign]
    store.put_if_absent(commit_key(int(version)), data.encode())
    print("DONE", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
