"""What receipts, conflicts and limits print: a few lines for people, never an address in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pyarrow as pa

import rowlock
from rowlock.conflict.value import Work
from rowlock.transaction.state.receipt import SupersededRow

MET = rowlock.Conflict(10, "UPDATE", 1_785_548_024_500, "7f3a", ("day=a/part-1.parquet",), 3, 5)
RECEIPT = rowlock.Receipt(
    version=12,
    read_version=9,
    txn_id="3f2a",
    operation="MERGE",
    attempts=2,
    rows_rebased=14,
    bytes_rebased=3400,
    rows_dropped=2,
    conflicts=(MET, replace(MET, version=11, operation=None)),
    metrics={"numTargetRowsInserted": 1, "numTargetRowsUpdated": 1400, "numTargetFilesAdded": 2, "numTargetDeletionVectorsAdded": 1},
    seconds={"plan": 0.1, "stage": 1.123, "put": 0.001},
)


def test_receipt() -> None:
    assert (
        str(RECEIPT)
        == repr(RECEIPT)
        == dedent("""\
        MERGE: committed as version 12; it had read version 9
          rows       1,400 updated, 1 inserted
          files      2 added, 1 deletion vector written
          conflicts  version 10 (UPDATE), version 11; 14 rows rebased (3.4 kB); 2 staged rows dropped; 2 tries
          seconds    1.22 (plan 0.10, stage 1.12)
          txnId      3f2a""")
    )


def test_receipt_of_an_append(tmp_path: Path) -> None:
    lines = str(rowlock.append(tmp_path, pa.table({"id": [1, 2, 3]}))).splitlines()
    assert lines[:4] == ["WRITE: committed as version 0", "  rows       3 written", "  files      1 added", "  conflicts  none"]


def test_receipts_without_a_version() -> None:
    nothing = rowlock.Receipt(version=None, read_version=3, txn_id="a", operation="DELETE")
    assert str(nothing) == "DELETE: no version, nothing was committed\n  txnId  a"
    again = replace(nothing, already_committed=True, txn_id="")
    assert str(again) == "DELETE: not committed again, this step of the application is in the log already"


def test_receipts_of_groups_of_many_winners_and_of_rows_that_both_changed() -> None:
    one = replace(RECEIPT, group_size=3, conflicts=(MET,) * 6, overwritten=(SupersededRow(1, "cells", ("a",), 10),), rows_followed=7)
    assert "version 12, shared with 2 other appends" in str(one)
    assert (
        "version 10 (UPDATE), 2 more; " in str(one)
        and "1 row in which both changed something" in str(one)
        and "7 rows found where others had moved them" in str(one)
    )


def test_a_receipt_counts_one_row_in_the_singular() -> None:
    one = str(replace(RECEIPT, rows_rebased=1, bytes_rebased=715, rows_dropped=1))
    assert "; 1 row rebased (715 B); 1 staged row dropped; " in one


def test_conflict_that_a_rebase_settled() -> None:
    assert repr(MET) == "<Conflict with version 10, UPDATE: 3 rows gone, 5 born; settled by a rebase>"
    assert str(MET) == dedent("""\
        Another commit changed what this transaction works on; a rebase settled it.
          other commit     version 10, UPDATE, at 2026-08-01 01:33:44 UTC
          its txnId        7f3a
          files            day=a/part-1.parquet
          rows it changed  3 of ours gone, 5 born where the transaction reads""")


def test_conflict_that_was_raised() -> None:
    raised = replace(
        MET, rule="rows read", what="Another commit changed rows that this transaction had read.", thrown_away=Work(rows=3), remedy="Run it again."
    )
    assert repr(raised) == "<Conflict with version 10, UPDATE: rows read>"
    assert str(raised).startswith("Another commit changed rows that this transaction had read.\n") and str(raised).endswith("what to do    Run it again.")


def test_notebooks_show_small_tables() -> None:
    shown = RECEIPT._repr_html_()
    assert shown.startswith("<table><caption") and "<td" in shown and "1,400 updated, 1 inserted" in shown
    hostile = replace(MET, rows=({"name": "<script>"},))
    assert "<script>" not in hostile._repr_html_() and "name=&lt;script&gt;" in hostile._repr_html_()


def test_limits_print_as_python() -> None:
    limits = rowlock.Limits(append_file_bytes=256 << 20, driver_rows=7)
    assert "    driver_rows=7,\n" in repr(limits) and "    append_file_bytes=268_435_456,  # 256 MB\n" in repr(limits)
    assert eval(repr(limits), {"Limits": rowlock.Limits}) == limits
