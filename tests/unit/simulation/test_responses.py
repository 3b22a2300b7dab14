"""The judge's rules about what programs get back can each fail: a wrong answer that is put into the code under test is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rowlock.exceptions import InvalidInput, VersionNotFound
from rowlock.log import checksums, cleanup
from rowlock.log.live_files import LiveFiles
from rowlock.log.table_log import TableLog
from rowlock.maintenance import restore
from rowlock.transaction.publish import metrics
from rowlock.transaction.rebase import log_chain, onto_head
from rowlock_simulation import actions
from rowlock_simulation.draw import draw
from rowlock_simulation.roles import REMADE
from rowlock_simulation.run import run


def _no_version(log: TableLog, version: int) -> Any:
    raise VersionNotFound("made up", table=log.table, version=version)


def _refuses(*_: Any, **__: Any) -> Any:
    raise InvalidInput("made up")


_row_counts, _tombstones, _history, _read = metrics.row_counts, TableLog.tombstones, TableLog.history, actions.read


@pytest.mark.parametrize(
    ("where", "name", "wrong", "violation", "first"),
    [
        (TableLog, "at", _no_version, "failed without a reason: VersionNotFound", 0),
        (actions, "parameters", _refuses, "failed without a reason: InvalidInput", 0),
        (metrics, "row_counts", lambda txn: {kind: n + 1 for kind, n in _row_counts(txn).items()}, "metrics of version", 0),
        (metrics, "_whole_files", lambda files: ([], list(files.removes)), "metrics of version", 0),
        (onto_head, "refuse_on_append_only", lambda head: None, "append-only: version", 187),
        (restore, "with_marks_of", lambda metadata, *_: metadata, "was given 2 times", 32),
        (LiveFiles, "total_size_bytes", property(lambda _: 7), "the size of version", 0),
        (TableLog, "tombstones", lambda *given: _tombstones(*given)[1:], "removed files, by checkpoints or by the log alone", 0),
        (
            actions,
            "read",
            lambda table, head, *given: _read(table, table.state.log.at(max(0, head.version - 1)), *given),
            "had been acknowledged",
            0,
        ),
        (TableLog, "at_timestamp", lambda log, *_: log.at(0), "asked for the time of version", 5),
        (TableLog, "history", lambda *given, **limit: [replace(c, version=0) for c in _history(*given, **limit)], "was shown another history", 5),
        (checksums, "checksum", lambda snapshot: b'{"numFiles": 1234}', "ChecksumWarning", 0),
        (cleanup, "_choose", lambda *_: None, "cleanup: _delta_log/00000000000000000000.json is left", 0),
    ],
)
def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, first: int) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for seed in range(first, first + 80) for text in run(draw("s3", seed)).violations)


def test_a_transaction_that_goes_on_in_the_next_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped and made again beneath it: a transaction that began on the table before must not be acknowledged in this one."""
    monkeypatch.setattr(log_chain, "check_table", lambda txn, head: None)
    monkeypatch.setattr(onto_head, "_check_table", lambda *_: None)
    plans = (plan for plan in (draw("s3", seed) for seed in range(1532, 5000)) if plan.theme == REMADE)  # the first of them shows it at once
    assert any("began on a table that was dropped" in text for plan in plans for text in run(plan).violations)
