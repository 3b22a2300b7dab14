"""The house stands on its own feet: no module imports itself through others, types included, and no layer looks up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import long_forms
from tools.structure import circles, circles_of_rooms, heights, main, modules, names_between, upward

SOURCE = Path(__file__).parent.parent / "src" / "rowlock"

BUDGETS = {
    "": 2259,  # Limits, caches, exceptions, and the seams of clock and threads; options without effect, each in a warning (30), 24 of delta-spark's error conditions; two more of delta-spark's conditions; four for identity columns, names of checks and fields that are inserted alone; one for partitions that are given twice (1); six for views that are no target, a DEFAULT within an expression, aggregates (6); two of table_changes and of time travel (2); two of partial overwrites (2); two of SHOW (2); what an option cannot be, told once for reads, writes and streams (14); a limit for bins that are moved anew (2); what settings are true (8).
    "advice": 1593,  # The history of a table, failed attempts and what they advise.
    "api": 8448,  # Every public call, and the statements of SQL, with the grammar of Delta's own (382); properties that a write names are checked where the table is there, too (4); a stream's rows are cast as an INSERT's (4); what clones, conversions and new names would pass over is refused (19); the columns that a MERGE adds are told to its planning (2); ALTER COLUMN gives no struct, array or map another type as a whole (6); a clone of a version that a path names, of a schema `parquet` (7); a step that made its table is not refused the second time (3); the options of insertInto count (18), two that do not go together have Delta's condition (20); what Spark refuses for Delta tables has Spark's conditions (24); elements, keys and values keep their nullability, and have no comment (16); columns of a table that is there are compared with how they are computed, none of numbers makes partitions (9); by position fields of structs are added under their own names behind the table's, and a partition is given once (13); DESCRIBE EXTENDED says what delta-spark says (22), what a MERGE that evolves the schema casts is checked (5); rows of a writer and of a stream have the table's partitions, names of new columns that are twice, defaults of a new table's columns by properties in any letters (25); a collation is no change that ALTER COLUMN makes unseen (5); columns that a write may add are told in the history (1); options of a partial overwrite that do not go together (6); SHOW of another schema or column, and a table at two places, are refused (7); what Arrow refuses to read is named with its file (1); a source with two columns of a name (3); all leases of a transaction over several tables (1); structs in an INSERT that lists its columns (3); types of partitions (3); where a stream cannot begin, and checkpoints that divide a version (12).
    "boundary": 737,  # What crosses between transactions and engines.
    "cli": 3060,  # The command line, its reports and the demos; names and signs that are no text of the terminal (5); names in JSON (4).
    "conflict": 881,  # What winners did, which of it is a conflict, and the change data feed, whose tables and actions were told in protocol; the columns of the feed, told once (8); a MERGE that only copied rows changed none (10).
    "engines/appends": 372,  # Rows as Arrow tables, without Spark; structs in arrays and maps by the names of their fields (11); streams that fail (3).
    "engines/spark": 10557,  # All that runs on Spark, its planning behind one object; subqueries that name a column of the statement's rows are named as such (9); names of columns that a MERGE adds mean its source (30); conditions on decimals with more digits than their files have stay with Spark (2); defaults that are refused say what delta-spark says, columns may be generated from numbers (35); by position fields of structs go by name where delta-spark has it so (13); functions that SQL defines are named (18); folders with narrower integers, other letters and columns of both kinds are converted (33), what files say of row ids (12); structs in arrays and maps that lack fields or have more, DEFAULT in any SELECT (28); comments inside of columns are shown, CHECKs among properties are parsed, texts of defaults measured (21); a text is not TRUE (4), a column named default is meant (2); why a view is no target, values that are of no row, a DEFAULT within an expression (22); tables whose name is computed (27); arguments with names (4); collations that the JSON of Spark 4.0 lacks (1); a source with two columns of a name (5); inventories that say s3a, and no _SUCCESS (4); settings told by a class of their own (2); a session after one that was stopped (4); what Spark says of a join and a CASE that nobody wrote, in a MERGE (17); structs in an INSERT that lists its columns (17); how the files of tasks become a job's is no setting, and disks that take two names for one folder (9).
    "locks": 532,  # Leases and turns.
    "log": 2144,  # Snapshots out of storage, also of a table that is made again meanwhile, at any time (17); checkpoints and clean-up, also beside another process's (12); an entry that a checkpoint holds twice counts once, in half the time and memory (9); columns that are not in force (9), damaged checkpoints (22) (31).
    "maintenance": 2477,  # OPTIMIZE, VACUUM, RESTORE, checks and repair; disks that take two names for one folder (9); folders of Spark jobs go with their last file (15); folders that are empty, spellings of partition values (28); columns by other names than the log's (27).
    "parquet": 2226,  # Data files, read and written with pyarrow; damaged data files are named (3); what Arrow does not read, told once (8); what a table of few rows takes in memory (5); the binaries of variants are required (15).
    "protocol": 6742,  # What the bytes in _delta_log mean; numbers of an identity column lie past those that its rows set themselves (6); what of a column a check or a generated column names, and so keeps its type (60); columns to have statistics are checked, and follow their names (40), and so are the words for features (8); a version in a path (11); what leads through no struct is named so, REPLACE COLUMNS drops (9); whether fields of structs go by name in an INSERT by position, and what they are called (26); what Spark casts without being asked (30); properties and features are named in any letters (10); nulls among what an operation was asked for (1); which properties may change beneath staged work, which conflict told (6); texts that are numbers, what column mapping left, kinds of vectors and old names of types (11); columns of a replaced table keep their ids (35); what VACUUM asks of a protocol (5); structs in an INSERT that lists its columns (13); bounds of fields that were renamed (24), columns that are not in force (13), versions that are none (8), spellings of partition values (8) (58).
    "storage": 3141,  # Object stores, the put-if-absent and the arbiters, which put no commit again that was in its place (4); objects that mark folders of a bucket are no files (9); why a store lets nobody in, disks that sync no folders or take two names for one (31); paths that are no UTF-8 (2); links to themselves (20); how a store is asked for many objects, which log told (4), who else waits for the lane of a local disk (15); one client for the tables of a bucket (5).
    "testing": 123,  # The public test kit.
    "transaction": 7427,  # Begin, stage, rebase, publish, commit; a comment among the properties of a new table (3); columns to have statistics (3); the history says where columns were put (8); REPLACE COLUMNS drops where columns are mapped (12), the history says what a column became (4); a check cannot have the name of Delta's own (7); batches of streams are named in the history (23); properties in any letters, an ALTER reads no rows (4); what is twice in CLUSTER BY (1); a tag where row tracking alone is enabled (1); vectors that mark nothing, and damaged ones by name (5); a checkpoint of a dropped table covers no commit (14); a replaced table with manifests (1); what is left of a compacted bin (6); what was prepared fits columns that another engine changed, or does not; one table under two paths (25); what is left of a bin without vectors (32); what a vector takes in memory (6); a bound for threads that delete posts (18); how many rows a file may have, for both engines (17); appends that wait for the lane of a local disk are posted (19).
}
"""The most lines that each room may have.  A room that shrinks takes its budget along; a commit that raises one says what it was worth."""
SLACK = 1.05
FILES, NAMES = 280, 81
"""The most files of src/rowlock, and the most names of engines/spark that api may import.  Both only fall."""


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


def test_what_is_told_in_one_breath_is_one_file(house) -> None:
    assert len(house) <= FILES


def test_the_api_asks_the_engine_by_few_names(house) -> None:
    assert len(names_between(house, "api", "engines.spark")) <= NAMES


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
