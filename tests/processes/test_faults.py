"""I1, I2: puts that are applied and whose reply is lost, puts that never arrive, puts that arrive late, listings that are old."""

from __future__ import annotations

import pytest

from servers.minio import Minio
from support.writers.faulty import contest


def test_every_increment_counts_once(minio: Minio) -> None:
    done = contest(minio, writers=6, each=10, seed=7)
    assert not done.problems, done.problems
    assert sum(done.faults.values()) > 30 and len(done.faults) > 8, "most kinds of faults were met"


def test_it_would_be_seen(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that takes the store's word runs its statement again after a put that landed."""
    from rowlock.storage import Committed
    from rowlock.transaction.publish import outcome as outcomes

    monkeypatch.setattr(outcomes, "landed", lambda log, version, data, txn_id, outcome, head=None: isinstance(outcome, Committed))
    monkeypatch.setattr("rowlock.transaction.rebase.onto_head.Commit.txn_id", property(lambda self: ""))
    done = contest(minio, writers=3, each=6, seed=7)
    assert done.problems
