"""The account that a receipt leaves in a commit is the one that a history reads, field by field."""

from __future__ import annotations

import orjson

from rowlock.advice.history import MetWinner, OverwrittenRows, Run, run_of_commit
from rowlock.transaction.state.receipt import Conflict, Receipt, SupersededRow

SHARED = ("version", "read_version", "txn_id", "operation", "attempts", "rounds", "rows_rebased", "bytes_rebased", "seconds")


def test_what_is_recorded_is_what_is_read() -> None:
    receipt = Receipt(
        version=5, read_version=3, txn_id="t", operation="UPDATE", attempts=3, rounds=2, rows_rebased=7, bytes_rebased=70, seconds={"stage": 1.5, "put": 0.25},
        conflicts=(Conflict(4, "DELETE", files=("f",), rows_gone=2, rows_born=1, columns=("x",)),), overwritten=(SupersededRow(9, "cells", ("x",), 4), SupersededRow(10, "cells", ("y",), 4)),
    )  # fmt: skip
    info = {"operation": receipt.operation, "txnId": receipt.txn_id, "readVersion": 4, "rowlock": {**receipt.record(), "read_version": receipt.read_version}}
    run = run_of_commit(5, orjson.loads(orjson.dumps(info)))
    assert {name: getattr(run, name) for name in SHARED} == {name: getattr(receipt, name) for name in SHARED}
    assert all(getattr(run, name) != Run.__dataclass_fields__[name].default for name in SHARED[4:8]), "none of them stands there by itself"
    assert run.met == (MetWinner(version=4, operation="DELETE", files=("f",), columns=("x",), rows_gone=2, rows_born=1),)
    assert run.overwrote == (OverwrittenRows(version=4, outcome="cells", rows=2, columns=("x", "y")),)
