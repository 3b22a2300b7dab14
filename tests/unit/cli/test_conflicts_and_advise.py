"""`rowlock conflicts` and `rowlock advise` as a user meets them: in a narrow terminal, piped, as JSON, on a table of somebody else's words."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

from rowlock import append
from rowlock.advice import attempts
from rowlock.advice.advice import advise
from rowlock.advice.history import History, run_of_commit
from rowlock.cli.conflicts import picture, print_advice, summary
from rowlock.cli.main import app
from rowlock.storage.local import LocalStore
from rowlock.transaction.definition import creation
from rowlock.transaction.state.shared import state_of
from unit.advice import histories

WIDTH = 100


@pytest.fixture(scope="module")
def hot_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hot") / "t"
    histories.hot_rows(store=LocalStore(path))
    return path


def rowlock(*words: object) -> str:
    done = CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": str(WIDTH), "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.output


def printed(history: History) -> tuple[str, str]:
    out = []
    for show in (lambda c: picture(history, c), lambda c: print_advice(history, advise(history), c)):
        console = Console(file=io.StringIO(), width=WIDTH, force_terminal=False)
        show(console)
        out.append(console.file.getvalue())  # type: ignore[attr-defined]
    return out[0], out[1]


def test_conflicts_of_hot_rows(hot_table: Path) -> None:
    lines = rowlock("conflicts", hot_table).splitlines()
    text = "\n".join(line.rstrip() for line in lines)
    assert f"{hot_table}  versions 0 to 61: 62 commits, 0 of them rebased, 174 failed tries" in text
    assert [line.split("  ")[0] for line in lines if line[:1].isupper() and "  " in line][:2] == ["When", "Conflicts by operation"]
    assert "UPDATE                        174/174 100 %" in text
    assert "k              348  1 (348), 2 (348), 3 (348)     1   3" in text
    assert "ConcurrentDeleteDelete  version 60, UPDATE  3 rows, 0.4 s" in text
    bars = [line for line in lines if "█" in line and "×" in line]
    assert len({line.index("█") for line in bars[1:]}) == 1, "bars begin in one column"
    assert all(len(line.rstrip()) <= WIDTH for line in lines[1:]) and "\x1b" not in text


def test_appends_that_share_a_version_are_told_so(tmp_path: Path) -> None:
    """One commit with three members, as `transaction/group_commit/group.py` writes it."""
    members = [{"txn_id": t, "operation": "WRITE", "read_version": 0, "files": 1, "rows": 10} for t in "abc"]
    grouped = run_of_commit(1, {"operation": "WRITE", "isBlindAppend": True, "txnId": "a", "readVersion": 0, "rowlock": {"members": members, "attempts": 1}})
    alone = run_of_commit(2, {"operation": "WRITE", "isBlindAppend": True, "txnId": "d", "readVersion": 1, "rowlock": {"members": "rubbish"}})
    assert (grouped.group_size, alone.group_size) == (3, 1)
    history = History("/t", (grouped, alone))
    assert "versions 1 to 2: 2 commits, 0 of them rebased, 0 failed tries; 3 appends share 1 version" in printed(history)[0]
    assert summary(history)["transactions"] == 4


def test_advice_on_hot_rows(hot_table: Path) -> None:
    text = " ".join(rowlock("advise", hot_table).split())
    assert 't.setProperties({"rowlock.lock": "writes", "rowlock.onConflict": "repair"})' in text
    assert "174 tries under rerun threw away 70 s and 522 rows" in text
    assert "none 2 × 1.169 s 0.000 s 2.337 s writes 2 × 0.000 s 1.160 s 1.160 s" in text


def test_json(hot_table: Path) -> None:
    conflicts, advice = orjson.loads(rowlock("conflicts", hot_table, "--json")), orjson.loads(rowlock("advise", hot_table, "--json"))
    assert (conflicts["commits"], conflicts["versions"], len(conflicts["failed"])) == (62, [0, 61], 174)
    assert conflicts["pairs"] == [
        {"loser": "UPDATE", "winner": "UPDATE", "overlaps": 174, "met": 174, "failed": 174, "rows": conflicts["pairs"][0]["rows"], "rate": 1.0}
    ]
    assert sum(s["commits"] for s in conflicts["timeline"]) == 62 and conflicts["columns"][0]["name"] == "v" and conflicts["overwritten"] == []
    assert advice["settings"] == {"rowlock.lock": "writes", "rowlock.onConflict": "repair"} and advice["commits"] == 62 and advice["failed"] == 174
    assert advice["costs"]["failed"] == 174 and advice["expected_s"]["none"] > advice["expected_s"]["writes"]


def test_limit(hot_table: Path) -> None:
    found = orjson.loads(rowlock("conflicts", hot_table, "--json", "--limit", 10))
    assert found["versions"] == [52, 61] and 0 < len(found["failed"]) < 40


def test_lockless_overwriting_is_shown_with_both_writers() -> None:
    conflicts, advice = printed(histories.hot_rows("lockless"))
    assert "60 UPDATE  61 UPDATE     3  overwritten by version 61 (v)" in conflicts
    assert "135 rows that two concurrent commits changed; the newest of 45 pairs" in conflicts
    assert "overwrote what others had set in 135 rows" in " ".join(advice.split())


def test_a_quiet_table_has_a_quiet_picture() -> None:
    conflicts, advice = printed(histories.appends_only())
    assert "Files" not in conflicts and "Failed" not in conflicts and "WRITE 0/" in " ".join(conflicts.split())
    assert "Nothing to set: lock = none and the rest as it is." in advice and "setProperties" not in advice


def test_what_others_wrote_is_shown_as_text(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "t")
    histories.appends_only(store)
    evil = "[red]UPDATE[/red]\x1b[2J[/nonsense]"
    for n in range(3):
        account = {"conflicts": [{"version": 5, "operation": evil, "files": [evil], "columns": [evil], "rule": evil}]}
        store.put(
            attempts.key_of(n, "x"),
            orjson.dumps({"outcome": "conflict", "operation": evil, "error": evil, "at_ms": 10**17, "read_version": 3, "head_version": 6, "account": account}),
        )
    text = rowlock("conflicts", store.root) + rowlock("advise", store.root)
    assert "[red]UPDATE[/red]" in text and "\x1b" not in text


def test_rows_names_and_operations_are_shown_as_text(tmp_path: Path) -> None:
    """`show` and `history` print what is in the table: no markup, and nothing that moves the terminal's cursor."""
    path = str(tmp_path / "t")
    append(path, pa.table({"[b]id": ["[red]1", "2\x1b[2J", "two\nlines"]}), properties={"delta.columnMapping.mode": "name"})
    shown = rowlock("show", path)
    assert "[b]id" in shown and "[red]1" in shown and "2\ufffd[2J" in shown and "\x1b" not in shown
    assert [line.split() for line in shown.splitlines()][-3:-1] == [["two"], ["lines"]]
    commit = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    commit.write_bytes(commit.read_bytes().replace(b'"operation":"WRITE"', b'"operation":"[red]W\\u001b"'))
    assert "[red]W\ufffd" in rowlock("history", path)


def test_a_table_without_columns_is_shown(tmp_path: Path) -> None:
    creation.create(state_of(LocalStore(tmp_path)), '{"type":"struct","fields":[]}')
    assert rowlock("show", tmp_path).splitlines()[-1] == "0 rows"


def test_a_name_that_is_no_utf8_is_shown(tmp_path: Path) -> None:
    append(tmp_path, pa.table({"id": [1]}))
    left = os.fsencode(tmp_path) + b"/left\xff.bin"
    Path(os.fsdecode(left)).write_bytes(b"of nobody")
    os.utime(left, (0, 0))
    assert "left\\udcff.bin" in rowlock("vacuum", tmp_path, "--dry-run")
    (found,) = json.loads(rowlock("check", tmp_path, "--deep", "--json"))["findings"]
    assert [os.fsencode(name) for name in found["files"]] == [b"left\xff.bin"]


@pytest.mark.parametrize("command", ["conflicts", "advise", "history", "show", "check", "repair", "settle", "optimize", "vacuum"])
def test_no_table_is_one_line_with_a_remedy(command: str, tmp_path: Path) -> None:
    """I9: every command that takes a table names the condition, what to do and the place."""
    done = CliRunner().invoke(app, [command, str(tmp_path)], env={"COLUMNS": str(WIDTH)})
    text = f"error: [DELTA_MISSING_DELTA_TABLE] there is no Delta table here: correct the path, or create the table (rowlock.append and rowlock.write do) [table {tmp_path}]"
    assert done.exit_code == 2 and done.output.splitlines() == [text]


def test_one_commit_is_not_counted_as_several(tmp_path: Path) -> None:
    append(str(tmp_path / "t"), pa.table({"id": [1]}))
    assert "version 0: 1 commit, 0 of them rebased, 0 failed tries" in rowlock("conflicts", str(tmp_path / "t"))
    advised = rowlock("advise", str(tmp_path / "t"))
    assert "advice from 1 commit and 0 failed tries" in advised and "No commit changed a row (1 append): appends never conflict" in advised
