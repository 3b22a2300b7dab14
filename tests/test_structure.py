"""The house stands on its own feet: no module imports itself through others, types included, and no layer looks up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import long_forms
from tools.structure import circles, circles_of_rooms, heights, main, modules, upward

SOURCE = Path(__file__).parent.parent / "src" / "rowlock"

BUDGETS = {
    "": 2155,  # the last 2: two conditions of what cannot be set; before it 3: what few processes need (difflib, html) is imported by need, for the first append of a process; before it the system's clock and threads are what a simulation overrides: no protocol tells their methods again; before it the last 6: arguments that may be None are checked in one way, for ten callers; before it the last 10: one block for a context's variable, which six places told; before it the last 7: threads of a call have its context; 2 before: two conditions of delta-spark's; before it 4: limits for bins that Arrow rewrites, and sorts; of them 16: what belongs to a thread is asked of the seam, so that actors of a simulation may share one; transaction gave 9
    "advice": 1639,  # the last 37: who wrote a commit, and who took part in it, without the history, for the first append of a process; transaction gave 26; before it one reader of fields that any program may have written
    "api": 8292,  # the last 4: what a stream reads between two offsets, without Spark, so that a simulated query runs on it; before it 5: an INSERT by position is bound anew where a column was renamed meanwhile; before it 11: until when the owner of a transaction over several tables waits; 3 before: a table that is replaced with rows is a step of an application; before it 18: defaults and comments of columns stay where a table is replaced by its own rows, or a stream makes one
    "boundary": 747,  # the last 4: the ids of the rows of one file, which engines/spark told itself before
    "cli": 3078,  # the last 1: writers have a file of their own; before it each command is written once, where it is carried out; the demos share their processes, events and verdicts
    "conflict": 812,  # the last 2: the rules that a rebase settles, which advice told itself
    "engines/appends": 369,
    "engines/spark": 10975,  # the last 20: processes that start at once resolve connectors one after another (10), and two settings with which scans are right for readers, too; Spark lists no files; before it 23: the conditions of what cannot be set (15), nulls in void columns under STRICT, sources that keep CHAR and VARCHAR; before it 22: a DELETE of a third of 5 million rows takes no job and 0.4 of the processor time; before it what Python answers is a table of functions, which a protocol, a dispatch and a class told before; before it the last 3: a Java map is read in one place, for five callers; before it 207 went to parquet with the curves; the last 5: a char column of partitions has the mark of one; before it 27: queries that are stopped at the end of their program; the last 59: char(n) and varchar(n) within structs, arrays and maps, as the session takes them; conditions of a MERGE see the columns of now
    "locks": 539,
    "log": 2129,  # the last 1: a log that begins at a checkpoint is cleaned up as well; before it 8: the same arrays; before it the last 1: a checkpoint is decoded in portions, and frames are copies of what they need: a million files take 335 MB instead of 415; before it the last 8: a log without a table is refused in one place, for the checks and the repair; before it the last 4: what was found in the log is made durable, for five callers; 42 before: structs of statistics become JSON by column, for a fifth of the time; 23 before: instants that Spark wrote as INT96, days in its former calendar; before it 133: statistics and partition values of checkpoints as structs; 2 before: checkpoints are decoded in portions; protocol gave 9
    "maintenance": 2441,  # the last 6: rows that RESTORE brings back after row tracking was dropped get ids of their own; before it the last 44: what OPTIMIZE makes of the files it chose came from api, which gave 57; before it the last 102: `rowlock settle`, with a decision by hand
    "parquet": 2260,  # the calendar of footers went to protocol; the last 277: curves, which lay in engines/spark (207), and clustering and ZORDER by Arrow, for a quarter of the processor time; before it 362: OPTIMIZE and REORG by Arrow, a portion at a time, in a quarter of the time (332); columns with NaN have no bounds in footers (30)
    "protocol": 6536,  # the last 5: the name of Spark's column of row numbers is reserved, for scans, new tables and sources of a MERGE; before it 57: Arrow arrays by their buffers, so that no pandas is imported where a query is planned, a third of what the first one took; before it the last 5: the condition of a path that goes through no struct is told once, for ALTER COLUMN too; before it 12: whether row ids of an older version are still those of the table; before it the last 12: which calendar a footer says, for data files and checkpoints alike, which parquet and log gave; before it 13: properties of checkpoints; 1 before: a partition column's name has its own condition; before it 14: a definition that is checked once and statistics of few rows without Arrow (a tenth of a simulated schedule); 22 before: statistics of rows that come in portions; 9: more of Spark's settings of data files
    "storage": 3129,  # the last 7: the clients of DynamoDB and the parser of AWS's files are imported by need; before it the last 6: a register is put in the place of what was read in one way, for leases and turns; before it the last 8: a JSON object that may be missing is read in one place, for three; 3 went; before it the last 14: the names of folders that another process made are durable before a file in them counts; before it the last 12: one loop asks again for both claims, and what is refused after an unclear request is unknown; a lock of the lane that comes too late is released
    "testing": 123,
    "transaction": 7406,  # who took part in a version went to advice; the last 4: dropping and enabling row tracking at once ends; before it the last 3: a step that is found in the log is durable before it is acknowledged; 72 before: readers without the right to write see a transaction over several tables that is decided (51), its owner may wait for the decision only (21); 15 before: a table that is replaced with rows is a step of an application; before it 5: a checkpoint after DROP FEATURE is of the table that is there
}
"""The most lines that each room may have.  A room that shrinks takes its budget along; who adds to one says here what it was worth."""
# Delta-spark's conditions for what drawn statements named otherwise: 15 to 20 in each of five rooms.
# DROP FEATURE with its history, or behind protected checkpoints, for every feature that delta-spark drops: transaction +190, protocol +120, api +25, parquet +15, log +15.
# Manifests after each commit: transaction +95, of which maintenance gave 60; protocol +25.
# Tables on HDFS: storage +250 (a store that commits by a rename), engines/spark +120 (the driver's Hadoop client).
# Metrics and spans: 112 beside the rooms (telemetry.py), transaction +46 (who is told of commits and failures).
# VOID fields in structs, of which no file holds anything, and structs of DataFrames by the names of their fields: engines/spark +45, parquet +25, protocol +5.
# ADD CONSTRAINT asks whether its text is a condition; errors of Hadoop's client that PySpark has made its own: engines/spark +15.
# Rowlock's own client of S3 knows the session's settings of Hadoop's: engines/spark +40, storage +25.  Where Spark 4.0 has its checkpoint files: engines/spark +1.
# Who took part in a version that several appends share, in words for the history: advice +34.
# Transactions over several tables without an arbiter, prepared and decided in the log of one: transaction +558, protocol +103, storage +4, api +2; reading row ids of files went from engines/spark to parquet.
# Transactions over several tables, by one put of a DynamoDB arbiter: api +393, transaction +310, storage +132, beside the rooms +28, engines/spark +17.
SLACK = 1.05


def rooms() -> dict[str, int]:
    """Lines of code of each room: a folder of src/rowlock, an engine, or the files beside the folders."""
    found: dict[str, int] = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts[:-1]
        room = "/".join(parts[: 2 if parts[:1] == ("engines",) else 1])
        found[room] = found.get(room, 0) + len(path.read_text().splitlines())
    return found


def test_no_room_outgrows_its_budget() -> None:
    assert {room: lines for room, lines in rooms().items() if lines > BUDGETS.get(room, 0)} == {}


def test_no_budget_is_kept_for_what_went() -> None:
    """A budget that is 5 % and 50 lines above what is there is lowered, so that what a diet took away does not come back unseen."""
    assert {room: lines for room, lines in BUDGETS.items() if lines > max(SLACK * rooms().get(room, 0), rooms().get(room, 0) + 50)} == {}


@pytest.fixture(scope="module")
def house():
    return modules(SOURCE)


def test_no_imports_go_round(house) -> None:
    """Imports under TYPE_CHECKING and inside of functions count: what only types can tell apart is one thing."""
    assert circles(house) == []


def test_no_folder_imports_itself_through_its_neighbours(house) -> None:
    assert circles_of_rooms(house) == []


def test_no_imports_go_up(house) -> None:
    assert upward(house) == []


def test_what_goes_round_or_up_is_found(tmp_path: Path) -> None:
    for name, text in {
        "log/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rowlock.log.b import B\n",
        "log/b.py": "def f():\n    from rowlock.log import c\n",
        "log/c.py": "import rowlock.log.a\n",
        "protocol/d.py": "from rowlock.log import a\n",
        "log/e.py": "from rowlock.protocol.d import D\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    made = modules(tmp_path)
    assert circles(made) == [["log.a", "log.b", "log.c"]]
    assert upward(made) == [("protocol.d", "log.a")]
    (tmp_path / "log" / "deep").mkdir()
    (tmp_path / "log" / "deep" / "g.py").write_text("from rowlock.log.f import F\n")
    (tmp_path / "log" / "f.py").write_text("from rowlock.log.deep.h import H\n")
    (tmp_path / "log" / "deep" / "h.py").write_text("")
    assert circles_of_rooms(modules(tmp_path)) == [["log", "protocol"], ["log.a", "log.b", "log.c"], ["log.deep", "log.f"]]
    assert heights(made)["log.e"] > heights(made)["protocol.d"]


def test_the_page_of_figures(monkeypatch: pytest.MonkeyPatch, house) -> None:
    """`make structure`, whole: a commit is followed, too."""
    monkeypatch.setattr("sys.argv", ["structure.py"])
    monkeypatch.setattr("tools.structure.modules", lambda _: house)  # read once for all tests here
    said: list[str] = []
    main(said.append)
    page = "\n".join(said)
    assert "circles of imports: 0" in page and "a commit that lost once enters" in page


def test_the_list_of_long_forms_is_up_to_date() -> None:
    text = long_forms.PAGE.read_text()
    assert long_forms.page(text) == text, "run `make long-forms`"
