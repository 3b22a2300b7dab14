"""The judge and a table that is dropped and made again: whose commits are in whose log."""

from __future__ import annotations

from types import SimpleNamespace

import orjson
import pytest

from rowlock.protocol.names import commit_key
from rowlock_simulation.actions import Action, Done
from rowlock_simulation.history import History
from rowlock_simulation.judge import Verdict
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plans import plan_of
from rowlock_simulation.raw import commits_of
from rowlock_simulation.run import _Recorder
from rowlock_simulation.scheduler import Scheduler


def _made(table: str) -> bytes:
    metadata = {"id": table, "format": {"provider": "parquet", "options": {}}, "schemaString": '{"type":"struct","fields":[]}', "partitionColumns": []}
    return b"\n".join(orjson.dumps(a) for a in ({"commitInfo": {"txnId": table}}, {"metaData": metadata | {"configuration": {}}}))


def _commit(txn_id: str) -> bytes:
    return orjson.dumps({"commitInfo": {"txnId": txn_id}})


def _remade() -> History:
    """A table that was made, written to once, dropped and made again."""
    history = History()
    history.written(commit_key(0), _made("one"), 0)
    history.written(commit_key(1), _commit("a"), 1)
    history.dropped()
    return history


def _strays(history: History, txn_id: str) -> list[str]:
    outcome = Outcome("a0", Action(0, "property"), txn_ids=[txn_id], begun_on={txn_id: 0})
    outcome.ends("committed", Done())
    verdict = Verdict(plan_of("s3", 0), history, commits_of(history), [outcome])
    verdict.check_strays()
    return verdict.violations


def test_an_acknowledged_commit_of_a_table_that_was_dropped_is_found_in_the_next() -> None:
    history = _remade()
    history.written(commit_key(0), _made("two"), 2)
    history.written(commit_key(1), _commit("b"), 3)
    assert _strays(history, "b") == ["a0.0 began on a table that was dropped, and was acknowledged as version 1 of another"]


def test_a_commit_that_is_put_again_was_acknowledged_as_one_of_its_own_table() -> None:
    """With an arbiter, another process finishes it for its writer, and may come after the drop."""
    history = _remade()
    history.written(commit_key(0), _made("two"), 2)
    history.written(commit_key(1), _commit("a"), 3)
    history.written(commit_key(2), _commit("b"), 4)
    assert _strays(history, "a") == _strays(history, "b") == [], "who had read it finds it there, and goes on"


@pytest.mark.parametrize(("version", "is_stray"), [(1, True), (4, False)])
def test_what_follows_a_checkpoint_of_the_table_before_is_a_commit_to_that_table(version: int, is_stray: bool) -> None:
    """Its writer, and all readers, find the table before; nothing below the checkpoint is read any more."""
    history = _remade()
    history.written("_delta_log/00000000000000000003.checkpoint.00000000-0000-4000-8000-000000000000.json", b"", 2)
    history.written(commit_key(version), _commit("b"), 3)
    history.written(commit_key(0), _made("two"), 4)
    assert history.overtaken and bool(_strays(history, "b")) == is_stray


def test_a_checkpoint_of_the_table_before_is_known_by_its_id() -> None:
    """In JSON, too: it comes for a version that the new table has as well (s3 777,014,257)."""
    history = _remade()
    history.written(commit_key(0), _made("two"), 2)
    history.written("_delta_log/00000000000000000000.checkpoint.00000000-0000-4000-8000-000000000000.json", _made("two"), 3)
    assert not history.overtaken
    history.written("_delta_log/00000000000000000000.checkpoint.00000000-0000-4000-8000-000000000001.json", _made("one"), 4)
    assert history.overtaken


def test_what_follows_a_definition_of_the_table_before_is_a_commit_to_that_table() -> None:
    """A change of a property was put by a writer who had looked before the drop; who reads after it finds the id of its table, and has no part in that."""
    history = _remade()
    history.written(commit_key(0), _made("two"), 2)
    history.written(commit_key(1), _made("one") + b"\n", 3)
    history.written(commit_key(2), _commit("b"), 4)
    assert _strays(history, "one") and not _strays(history, "b")


def test_a_transaction_belongs_to_the_table_that_it_has_read() -> None:
    """Not to the one that is there when it begins: it may have read just before the drop."""
    history = _remade()
    history.written(commit_key(0), _made("two"), 2)
    recorder = _Recorder(Scheduler("made again"), history)
    recorder.outcome = Outcome("a0", Action(0, "property"))
    for table in ("one", "two"):
        recorder.phase("begin", SimpleNamespace(txn_id=table, read=SimpleNamespace(metadata=SimpleNamespace(id=table))))
    assert recorder.outcome.begun_on == {"one": 0, "two": 1}
