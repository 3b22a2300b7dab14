"""Writes docs/settings.md from the list of Delta's settings in the code.

usage: settings_page.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from rowlock.protocol.session_settings import PREFIX, SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
HEAD = f"""# Settings of a session

Every setting `{PREFIX}*` that Delta documents or makes public, as of delta-spark 4.4, and those of its internal ones that would change rows or the log. None
is passed over in silence: it does what Delta says, or it can change no result here and is named once in a warning (`rowlock.exceptions.SettingWarning`),
or a statement that it would change is refused by the setting's name. A setting that is in no list here is named once in such a warning, too, with the
name that may have been meant. The same holds for those of Spark's own settings that are for the data files of a table, whose names begin with `spark.sql.` here. This page is written by `make settings` from the list in the code.

A session's settings are read when a statement runs: each session, `newSession()` and `cloneSession()` included, has its own. They hold for every entrance: SQL,
`rowlock.sql`, writers by format name, `DeltaTable`, `rowlock.write`, and `rowlock.append` in a process that uses Rowlock with a Spark session (the active one).
A stream has those that its session had when the query was started. A value of another type is an error that names the setting. Names are spelled as here;
where a list gives a default, that is delta-spark's, and setting it changes nothing.

An argument or an option of a write says more than the setting, and a property that a statement sets more than `properties.defaults.*`.
"""
TITLES = {"works": "With their effect", "idle": "Can change no result", "refused": "Refused"}
STATEMENTS = {
    "write": "writes of rows",
    "merge": "MERGE",
    "update": "UPDATE",
    "delete": "DELETE",
    "create": "new tables",
    "alter": "ALTER TABLE",
    "optimize": "OPTIMIZE",
    "vacuum": "VACUUM",
    "restore": "RESTORE",
    "clone": "clones",
    "convert": "CONVERT TO DELTA",
    "feed": "change feeds",
    "stream": "streams that read",
}


def lines() -> Iterator[str]:
    yield HEAD
    for effect, title in TITLES.items():
        where = " at" if effect == "refused" else ""
        yield f"## {title}\n"
        yield f"| {PREFIX}... | default |{' refused at |' if where else ''} what Rowlock does |\n|---|---|{'---|' if where else ''}---|"
        for s in SETTINGS.values():
            if s.effect == effect:
                at = f" {', '.join(STATEMENTS[w] for w in s.at)} |" if where else ""
                yield f"| `{s.name}` | {'none' if s.default is None else f'`{s.default}`'} |{at} {s.description} |"
        yield ""


def page() -> str:
    return "\n".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page())
