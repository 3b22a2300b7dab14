"""The house stands on its own feet: no module imports itself through others, types included, and no layer looks up."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools import long_forms
from tools.structure import circles, circles_of_rooms, heights, main, modules, names_between, upward

SOURCE = Path(__file__).parent.parent / "src" / "rowlock"

BUDGETS: dict[str, int] = {room: kept["lines"] for room, kept in tomllib.loads((Path(__file__).parent / "rooms.toml").read_text()).items()}
SLACK = 1.05
FILES, NAMES = 280, 42
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
