"""A conflict as a value: what its text, its error and its record say."""

from __future__ import annotations

from textwrap import dedent

import orjson
import pytest

from model.schedules.in_memory import NO_LANE, InMemory
from model.schedules.play import schema_string
from rowlock import Conflict, exceptions
from rowlock.conflict import rules
from rowlock.conflict.value import ERRORS, REMEDIES, WHAT, Work, conflict_with
from rowlock.protocol.actions import Commit, CommitInfo
from rowlock.transaction.rebase.fail_policy import columns_changed, sampled
from rowlock_simulation.memory.sql.script import Append, parse
from rowlock_simulation.memory.statements import commit, stage

WINNER = Commit(1042, CommitInfo({"operation": "UPDATE", "timestamp": 1_785_548_024_500, "txnId": "7f3a0c9e-58e3-4f6e-a3a7-0c1d2e3f4a5b"}))
LONG = "country=UK/part-00017-2abbde89-2d0f-465e-a2f0-3e84f1b84654-c000.snappy.parquet"


def full() -> Conflict:
    files = (LONG, *(f"part-{n}.parquet" for n in range(5)))
    rows = [{"id": n, "amount": 10.5, "note": None} for n in range(4)] + [
        {"id": 9, "amount": 1.0, "note": "a long\nnote " + "x" * 60},
        {"id": 10, "amount": 0, "note": ""},
    ]
    conflict = conflict_with(WINNER, "rows changed by both", files=files, rows=rows, columns=("amount",))
    return conflict.with_work(Work(rows=1200, size_bytes=3_400_000, seconds=12.34))


def test_text() -> None:
    assert full().text("/lake/sales") == dedent("""\
        Another commit changed the same rows.
          table         /lake/sales
          other commit  version 1042, UPDATE, at 2026-08-01 01:33:44 UTC
          its txnId     7f3a0c9e-58e3-4f6e-a3a7-0c1d2e3f4a5b
          files         country=UK/part-00017-2abbde89-2d0f-4…4-c000.snappy.parquet
                        part-0.parquet
                        part-1.parquet
                        part-2.parquet
                        and 2 more
          rows          id=0, amount=10.5, note=null
                        id=1, amount=10.5, note=null
                        id=2, amount=10.5, note=null
                        id=3, amount=10.5, note=null
                        id=9, amount=1.0, note=a long note xxxxxxxxxxxxxxxxxxxxxxxxxxx…
          set by both   amount
          thrown away   1,200 rows, 3.4 MB, 12.3 s
          what to do    Run the statement again, or set rowlock.onConflict=repair, which redoes only what the other commit changed.""")


def test_short_text() -> None:
    """A winner of another engine may say nothing of itself."""
    assert conflict_with(Commit(3), "protocol").text("t" * 120) == dedent(f"""\
        Another commit changed what writers of this table must support.
          table         …{"t" * 99}
          other commit  version 3
          what to do    Run the statement again: it will see the new protocol.""")


def test_what_was_thrown_away_is_said() -> None:
    conflict = conflict_with(WINNER, "rows read").with_work(Work(rows=10, size_bytes=999, seconds=2.0))
    assert conflict.staged == conflict.thrown_away
    assert "  thrown away   10 rows, 999 B, 2.0 s\n" in conflict.text("t")


def test_a_time_out_of_range_does_not_hide_the_conflict() -> None:
    assert "at 999999999999999999 ms" in conflict_with(Commit(1, CommitInfo({"timestamp": 999999999999999999})), "protocol").text("t")


def test_error_has_the_conflict_and_its_main_facts() -> None:
    conflict = full()
    error = conflict.exception("/lake/sales")
    assert isinstance(error, exceptions.ConcurrentDeleteDeleteException)
    assert error.conflict is conflict and error.table == "/lake/sales" and str(error) == error.desc == conflict.text("/lake/sales")
    facts = (error.winner_version, error.winner_operation, error.winner_timestamp_ms, error.rule, error.remedy)
    assert facts == (1042, "UPDATE", 1_785_548_024_500, "rows changed by both", REMEDIES["rows changed by both"])
    assert error.files == conflict.files and len(error.rows) == 5


def test_error_without_a_conflict() -> None:
    error = exceptions.MetadataChangedException("It changed.", table="t", remedy="Do it again.")
    assert (str(error), error.remedy, error.conflict, error.files, error.rows, error.winner_version, error.rule) == (
        "It changed. [table t] Do it again.",
        "Do it again.",
        None,
        (),
        (),
        None,
        None,
    )


def test_record_is_json_without_values_of_rows() -> None:
    record = full().record()
    assert orjson.loads(orjson.dumps(record)) == record
    assert not {"rows", "what", "remedy"} & record.keys()
    assert record["staged"] == {"rows": 1200, "size_bytes": 3_400_000, "seconds": 12.34} and record["columns"] == ["amount"]
    settled = Conflict(3, None, None, None, ("f",), rows_gone=1, rows_born=2).record()
    assert settled == {"version": 3, "operation": None, "timestamp_ms": None, "txn_id": None, "files": ["f"], "rows_gone": 1, "rows_born": 2}


def test_every_rule_has_its_words() -> None:
    assert ERRORS.keys() == WHAT.keys() == REMEDIES.keys()
    assert all(text.endswith(".") for text in (*WHAT.values(), *REMEDIES.values()))


# what a failed transaction says


def fail(mine: str, theirs: str, granularity: str = "row") -> exceptions.DeltaConcurrentModificationException:
    made = InMemory()
    columns = [("k", "long", True), ("v", "long", True), ("w", "long", True)]
    made.create(schema_string(columns), (), {"delta.enableDeletionVectors": "true", "rowlock.onConflict": "fail", "rowlock.granularity": granularity})
    made.run(Append(((1, 10, 0), (2, 20, 0), (3, 30, 0))))
    txn = stage(made.table, parse(mine), NO_LANE)
    receipt = made.run(parse(theirs))
    with pytest.raises(exceptions.DeltaConcurrentModificationException) as caught:
        commit(txn, parse(mine))
    conflict = caught.value.conflict
    assert (conflict.version, conflict.operation, conflict.txn_id) == (
        receipt.version,
        parse(theirs).__class__.__name__.upper().replace("APPEND", "WRITE"),
        receipt.txn_id,
    )
    assert conflict.staged.rows and conflict.thrown_away == conflict.staged and conflict.staged.seconds > 0
    return caught.value


def test_rows_and_columns_that_both_set() -> None:
    error = fail("UPDATE SET v = v + 1, w = 1 WHERE k <= 2", "UPDATE SET v = 0 WHERE k = 2")
    assert isinstance(error, exceptions.ConcurrentDeleteDeleteException)
    assert (error.rows, error.conflict.columns, len(error.files)) == (({"k": 2, "v": 20, "w": 0},), ("v",), 1)
    assert "  set by both   v\n" in str(error) and "  rows          k=2, v=20, w=0\n" in str(error)


def test_rows_that_are_gone_have_no_columns() -> None:
    error = fail("UPDATE SET v = 5 WHERE k <= 2", "DELETE WHERE k = 2")
    assert (error.rows, error.conflict.columns) == (({"k": 2, "v": 20, "w": 0},), ())


def test_rows_that_came() -> None:
    error = fail("UPDATE SET v = 5 WHERE k <= 2", "APPEND (2, 7, 7)")
    assert isinstance(error, exceptions.ConcurrentAppendException)
    assert (error.rule, error.rows, error.conflict.columns) == ("rows added", ({"k": 2, "v": 7, "w": 7},), ())


def test_by_file() -> None:
    error = fail("UPDATE SET v = 5 WHERE k <= 2", "DELETE WHERE k = 3", granularity="file")
    assert (error.rule, len(error.files), error.rows) == ("added files", 1, ())


@pytest.mark.parametrize(
    ("before", "after", "columns"),
    [
        ([{"k": 1, "v": 1}], [{"k": 1, "v": 2}], {"v"}),
        ([{"k": 1, "v": 1}], [{"k": 2, "v": 2}], set()),  # nothing says that this is the same row
        ([{"k": 1, "v": 1}], [{"k": 1, "v": 2}, {"k": 1, "v": 3}], set()),  # which of the two is it?
        ([{"k": 1, "v": 1, "w": 1}], [{"k": 1, "v": 2, "w": 1}, {"k": 2, "v": 5, "w": 1}], {"v"}),
        ([{"k": 1, "v": 1}], [], set()),
    ],
)
def test_columns_are_named_where_they_are_sure(before, after, columns) -> None:
    assert columns_changed(before, after) == columns


def test_very_many_rows_are_named_at_once() -> None:
    """I8: naming a conflict of 30,000 rows does not hold up the writers behind it: what is compared has a bound, however many rows there are."""
    before = [{"k": k, "v": k % 7, "w": str(k), "x": float("nan")} for k in range(30_000)]
    compared = sampled(before, len(before) * 4)
    assert 1 <= len(compared) <= 20_000_000 // (len(before) * 4) and compared[0] is before[0] and sampled(before[:5], 4) == before[:5]
    assert columns_changed(before, [{**row, "v": row["v"] + 1, "w": "new"} for row in before]) == {"v", "w"}


def test_table_rules_carry_the_work_too() -> None:
    made = InMemory()
    made.create(schema_string([("k", "long", True)]), (), {})
    txn = stage(made.table, Append(((1,),)), NO_LANE)
    from rowlock.transaction.definition import creation

    creation.set_properties(made.state, {"delta.enableChangeDataFeed": "true"})
    with pytest.raises(exceptions.MetadataChangedException) as caught:
        commit(txn, Append(((1,),)))
    assert caught.value.conflict.staged.rows == 1 and rules.TABLE_RULES
