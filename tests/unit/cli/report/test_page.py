"""`rowlock conflicts --html`: one page that needs nothing else, whoever wrote the table and whatever they said; in a real browser, too."""

from __future__ import annotations

import os
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st
from typer.testing import CliRunner

import rowlock
from rowlock.advice import attempts
from rowlock.advice.history import FileChanges, History, Run, run_of_attempt, run_of_commit
from rowlock.advice.read_history import read_history
from rowlock.api.append import opened
from rowlock.cli.main import app
from rowlock.cli.report.page import html
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.group_commit.group import queue_of
from servers.chromium import Chromium
from servers.minio import Minio
from unit.advice import histories
from unit.advice.test_other_engines import RECORDED
from unit.advice.world import START_MS

EVIL = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>‮\x1b[2J{{ 7 * 7 }}"


def command(*words: object) -> str:
    done = CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def contended() -> History:
    """236 runs of 4 writers on the same rows, 174 of which failed."""
    return histories.hot_rows()


def self_contained(page: str) -> None:
    """Asserts that the page runs nothing and asks nobody for anything."""
    assert "<script" not in page.lower() and "@import" not in page and "javascript:" not in page.lower()
    assert not re.search(r"""(?i)<[^>]+\s(src|data|action|poster|srcset|on\w+)\s*=""", page), "no element fetches or runs anything"
    assert all(target.startswith("#") for target in re.findall(r'(?i)<[^>]*?\shref="([^"]*)"', page))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_the_command_writes_page_and_trace(tmp_path: Path) -> None:
    histories.hot_rows(store=LocalStore(tmp_path / "t"))
    before = set((tmp_path / "t").rglob("*"))
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    said = command("conflicts", tmp_path / "t", "--html", page, "--trace", trace)
    assert f"Written: {page} (" in said and f"Written: {trace} (" in said
    text = page.read_text()
    self_contained(text)
    assert "174 of 174" in text and 't.setProperties({"rowlock.lock": "writes", "rowlock.onConflict": "repair"})'.replace('"', "&#34;") in text
    assert len(orjson.loads(trace.read_bytes())["traceEvents"]) > 236
    assert set((tmp_path / "t").rglob("*")) == before, "nothing is written into the table's folder"
    assert orjson.loads(command("conflicts", tmp_path / "t", "--html", page, "--json"))["commits"] == 62


def test_a_file_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    for file, why in ((tmp_path, "it is a folder"), (tmp_path / "no" / "page.html", "there is no folder")):
        done = CliRunner().invoke(app, ["conflicts", str(tmp_path), "--html", str(file)], env={"COLUMNS": "1000"})
        assert done.exit_code == 2 and why in done.output and "Traceback" not in done.output


def test_commits_say_who_wrote_and_when_they_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_APPLICATION", "nightly <load>")
    path = str(tmp_path / "t")
    for n in range(2):
        rowlock.append(path, pa.table({"id": [n]}), user_metadata=f"batch {n}")
    shown = command("history", path)
    assert shown.count("nightly <load> (") == 2 and f"process {os.getpid()})" in shown
    for run in read_history(LocalStore(path)).commits:
        assert (run.writer.application, run.user_metadata) == ("nightly <load>", f"batch {run.version}")
        assert run.writer.host and run.writer.process and run.began_ms is not None and run.at_ms is not None and 0 <= run.at_ms - run.began_ms < 60_000
    page = html(read_history(LocalStore(path)), START_MS)
    assert "nightly &lt;load&gt;" in page and "batch 1" in page and "nightly <load>" not in page


def test_the_history_lists_all_writers_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several appends in one commit are told with their number and writer; names of other programs move nothing in the terminal."""
    path = str(tmp_path / "t")
    monkeypatch.setenv("ROWLOCK_APPLICATION", "load\x1b[2J")
    rowlock.append(path, pa.table({"id": [0]}))
    state = opened(path)
    with ThreadPoolExecutor(3) as pool:
        with state.lane:
            told = [pool.submit(rowlock.append, path, pa.table({"id": [n]})) for n in range(3)]
            while len(queue_of(state).waiting()) < 3:
                time.sleep(0.001)
        assert {t.result().group_size for t in told} == {3}
    shown = command("history", path)
    assert "3 appends in one commit:" in shown and f"3 by load\ufffd[2J ({socket.gethostname()}, process {os.getpid()})" in shown and "\x1b" not in shown
    assert shown.count("in one commit") == 1, "the first append was alone"
    assert "3 output rows" in shown and "1 output row " in shown


def test_a_name_that_is_no_text_stops_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("caf\udce9", "x" * 5000):
        monkeypatch.setenv("ROWLOCK_APPLICATION", name)
        rowlock.append(str(tmp_path), pa.table({"id": [1]}))
    monkeypatch.delenv("ROWLOCK_APPLICATION")
    monkeypatch.setattr("sys.argv", ["/jobs/nightly/__main__.py"])
    rowlock.append(str(tmp_path), pa.table({"id": [1]}))
    assert [r.writer.application for r in read_history(LocalStore(tmp_path)).commits] == ["caf?", "x" * 200, "nightly"]


def test_failed_tries_say_who_made_them(contended: History, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {r.writer for r in contended.failed} == {r.writer for r in contended.commits} and contended.failed[0].writer.process
    assert all(r.began_ms is not None and r.at_ms is not None and 400 <= r.at_ms - r.began_ms < 2000 for r in contended.failed), "each staged for 0.4 s"


def test_what_others_wrote_is_text() -> None:
    info = {
        "operation": EVIL, "userMetadata": EVIL, "engineInfo": EVIL, "txnId": EVIL, "timestamp": START_MS, "operationParameters": {"predicate": f"k = '{EVIL}'"},
        "readVersion": 0, "rowlock": {"writer": {"host": EVIL, "process": 1, "application": EVIL}, "seconds": {"stage": 1, EVIL: 2}, "rounds": 1,
                                      "conflicts": [{"version": 1, "operation": EVIL, "files": [EVIL], "columns": [EVIL], "rows_born": 3}]},
    }  # fmt: skip
    failed = run_of_attempt({"outcome": "conflict", "operation": EVIL, "error": EVIL, "txn_id": EVIL, "at_ms": START_MS, "read_version": 0, "account": {}})
    assert failed is not None
    runs = (run_of_commit(1, info, FileChanges(added=(EVIL,), num_added=1)), run_of_commit(2, info), failed)
    page = html(History(f"/data/{EVIL}", runs, properties={EVIL: EVIL}, partition_of={EVIL: EVIL}), START_MS)
    self_contained(page)
    assert "&lt;script&gt;" in page and "\x1b" not in page and "‮" not in page and "{{ 7 * 7 }}" in page


@pytest.mark.parametrize(
    "history", [History("/empty"), History("/one", (Run(version=0, ended_at=-1, operation="CREATE TABLE", at_ms=START_MS),))], ids=["empty", "one"]
)
def test_little_or_no_history(history: History) -> None:
    page = html(history, START_MS)
    self_contained(page)
    assert "Nothing to set" in page and "No run met rows of another." in page


def test_delta_sparks_commits_alone() -> None:
    """What delta-spark records is drawn: when a commit was, how long it ran, what it read; who it was is not told."""
    store = MemoryStore("memory://delta_spark")
    for line in (RECORDED / "delta_spark.jsonl").read_bytes().splitlines():
        commit = orjson.loads(line)
        store.put(f"_delta_log/{commit['version']:020d}.json", b"\n".join(orjson.dumps(action) for action in commit["lines"]))
    page = html(read_history(store), START_MS)
    self_contained(page)
    assert "Apache-Spark/4.2.0 Delta-Lake/4.4.0" in page and "ran&nbsp;4.99 s" in page and "Their failed tries leave no trace" in page


def test_a_thousand_commits_stay_a_small_page() -> None:
    info = {"operation": "MERGE", "userMetadata": "m" * 5000, "engineInfo": "Rowlock/1", "operationParameters": {"predicate": "p" * 5000}}
    runs = []
    for n in range(1, 1001):
        conflicts = [{"version": n - k, "operation": "UPDATE", "files": ["f" * 200] * 20, "rows_born": 3} for k in range(1, 20) if n > k]
        account = {
            "writer": {"host": "h", "process": n % 30, "application": "a" * 500},
            "began_ms": START_MS + 900 * n,
            "seconds": dict.fromkeys(("plan", "stage", "rebase", "put"), 1),
        }
        runs.append(
            run_of_commit(
                n,
                {
                    **info,
                    "readVersion": max(0, n - 20),
                    "timestamp": START_MS + 900 * n + 9000,
                    "txnId": str(n),
                    "rowlock": {**account, "rounds": 3, "conflicts": conflicts},
                },
            )
        )
    page = html(History("/t", tuple(runs)), START_MS)
    assert 100_000 < len(page.encode()) < 1_500_000
    assert "850 older runs are not drawn" in page and "The newest 200 of 1,000" in page and "The newest 100 of 18,810 meetings" in page


_values = st.sampled_from(
    [None, True, -1, 7, 10**17, 1e300, 0.5, "", "x", "12", EVIL, [], {}, [1, "f"], {"version": 1, "x": 2}, [{"version": 1}], {"stage": 1e8, "put": -1}]
)
_named = [
    *("operation", "timestamp", "readVersion", "operationMetrics", "operationParameters", "userMetadata", "engineInfo", "txnId", "userName", "job", "notebook"),
    *("writer", "began_ms", "seconds", "conflicts", "rounds", "attempts", "members"),
]
_records = st.dictionaries(st.sampled_from(_named), _values)
_infos = st.builds(lambda info, ours: {**info, "rowlock": ours}, _records, _records | _values)


@settings(max_examples=60)
@example([({}, 2**53 + 1)])
@given(st.lists(st.tuples(_infos, st.integers(-10, 10**16)), max_size=6))
def test_no_history_breaks_the_page(infos: list[tuple[dict[str, object], int]]) -> None:
    """Whatever JSON stands in commitInfo and in the records of failed tries."""
    runs = [run_of_commit(n, info, modified_ms=at) for n, (info, at) in enumerate(infos)]
    tries = [run_of_attempt({"outcome": "conflict", "at_ms": at, **info, "account": info.get("rowlock")}) for info, at in infos]
    self_contained(html(History("/t", (*runs, *(t for t in tries if t is not None))), START_MS))


def test_a_table_on_s3(minio: Minio, tmp_path: Path) -> None:
    options = minio.storage_options
    path = f"{minio.fresh_root()}/sales"
    rowlock.append(path, pa.table({"id": [1]}), storage_options=options, user_metadata="from afar")
    page = tmp_path / "page.html"
    command("conflicts", path, "--html", page, *(word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")))
    assert "from afar" in page.read_text() and all(value not in page.read_text() for key, value in options.items() if "SECRET" in key.upper())


MEASURE = """<script>document.title = JSON.stringify({
  wide: document.documentElement.scrollWidth - innerWidth,
  bars: [...document.querySelectorAll('.chart a rect.frame')].filter(r => r.getBoundingClientRect().width > 1).length,
  filled: [...document.querySelectorAll('.chart a rect:not(.frame)')].filter(r => getComputedStyle(r).fill.includes('url') && r.getBoundingClientRect().height > 5).length,
  labels: [...document.querySelectorAll('.who div')].map(d => d.textContent),
  background: getComputedStyle(document.body).backgroundColor,
})</script>"""


def test_in_a_browser(contended: History, chromium: Chromium, tmp_path: Path) -> None:
    """The page is laid out at the width of a desk and of a phone; nothing but what may scroll is wider than the window."""
    page, measured, blank = tmp_path / "page.html", tmp_path / "measured.html", tmp_path / "blank.html"
    text = html(contended, START_MS)
    page.write_text(text)
    blank.write_text("<!doctype html><title>blank</title>")
    measured.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", f"{MEASURE}</body>"))
    for width, height in ((1200, 2400), (390, 3000)):
        document = chromium.document(measured, width, height)
        found = orjson.loads(re.search(r"<title>(\{.*?\})</title>", document, re.S)[1].replace("&gt;", ">"))  # type: ignore[index]
        assert found["wide"] <= 0, f"{width} pixels are enough"
        assert found["bars"] == 150 and found["filled"] >= 150 and len(found["labels"]) == 1 and "150 runs" in found["labels"][0]
        picture = chromium.picture(page, tmp_path / f"{width}.png", width, height)
        empty = chromium.picture(blank, tmp_path / "blank.png", width, height)
        assert picture.startswith(b"\x89PNG") and len(picture) > 10 * len(empty), "there is something to see"


def test_attempts_keep_what_the_user_said(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(
        attempts.key_of(1, "x"),
        orjson.dumps({"outcome": "conflict", "at_ms": 2000, "began_ms": 500, "user_metadata": "night", "writer": {"application": "dag"}}),
    )
    run = run_of_attempt(attempts.read(store)[0][0])
    assert run is not None and (run.began_ms, run.user_metadata, run.writer.application) == (500, "night", "dag")
