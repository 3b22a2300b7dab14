"""The versions of a transaction over several tables that is decided in the log of one of them, its home.

    P  prepared   in every other table: no data, but what the transaction will do there, and where its home is
    C  decided    in the home: the transaction's data there; from then on it is committed
    R  closed     in every prepared table: the transaction's data there; no data where it was aborted, or only read the table

All are plain Delta commits.  An open P is marked in the table's state by a `txn` action under an application id that contains
the table's id, so a checkpoint of any engine keeps it and a clone does not take it over.  At most one P of a table is open.  Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rowlock.protocol.actions import Commit, SetTransaction
from rowlock.protocol.paths import canonical, scheme_of

PREPARE, CLOSE = "ROWLOCK PREPARE", "ROWLOCK CLOSE"
POSTS = "_rowlock/prepared"
"""Where long staged commits lie, below the table's folder."""
_CLOSED = 0


@dataclass(frozen=True, slots=True)
class Home:
    """The table whose log decides: its path, the same relative to the prepared table, its metadata id, and its version before which nothing was decided."""

    table: str
    relative: str | None
    id: str
    since: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """The content of a P.

    txn_id  the transaction's id, which its C and R carry; the P has another
    tables  how many tables the transaction is over
    staged  the commit that the transaction would be here, as the text of a commit file; None where it only read the table
    post    the key of the object that holds this text, where it is long
    """

    version: int
    txn_id: str
    home: Home
    tables: int
    staged: str | None = None
    post: str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """Its record in the `rowlock` object of commitInfo."""
        return {"prepared": {k: v for k, v in asdict(self).items() if k != "version"}}


def post_key(prepared: Prepared) -> str:
    """The key of the object for the staged commit of a P.  It names the version, so the object is garbage once another commit has taken that version."""
    return f"{POSTS}/{prepared.version:020}.{prepared.txn_id}.json"


def is_needed(post: str, head: int, still_open: Prepared | None) -> bool:
    """Whether a P that is open, or that can still be put, may name this object; `head` is a version that exists."""
    version = post.rpartition("/")[2].partition(".")[0]
    return post == (still_open.post if still_open else None) or not version.isdecimal() or int(version) > head


def open_version(txns: Mapping[str, SetTransaction], table_id: str) -> int | None:
    """The version of the P that is open in a table with this metadata id; None where none is."""
    found = txns.get(_app_id(table_id))
    return None if found is None or found.version == _CLOSED else found.version


def opens(table_id: str, version: int) -> SetTransaction:
    """The `txn` action of a P at this version."""
    return SetTransaction(_app_id(table_id), version)


def closes(table_id: str) -> SetTransaction:
    """The `txn` action of the version that closes a P."""
    return SetTransaction(_app_id(table_id), _CLOSED)


def prepared_in(commit: Commit) -> Prepared | None:
    """The content of a P; None for any other commit, and for one that cannot be parsed."""
    record = ((commit.info.rowlock if commit.info else None) or {}).get("prepared")
    try:
        return Prepared(commit.version, **{**record, "home": Home(**record["home"])})  # type: ignore[dict-item,index]
    except (KeyError, TypeError):
        return None


def closed_in(commit: Commit) -> str | None:
    """The id of the transaction whose P a version closes; None for any other commit."""
    record = ((commit.info.rowlock if commit.info else None) or {}).get("closed")
    found = record.get("txn_id") if isinstance(record, dict) else None
    return found if isinstance(found, str) else None


def prepared_by(commit: Commit) -> list[tuple[str, int]]:
    """Of a C: the tables that its transaction had prepared, and the versions of the Ps; empty for any other commit."""
    return commit.info.versions("decided", "prepared") if commit.info else []


def relative_place(table: str, other: str) -> str | None:
    """The path of another table relative to this one, so that copies of a lake find their own; None for one in another bucket."""
    here, there = canonical(table).rstrip("/"), canonical(other).rstrip("/")
    if scheme_of(here) is None and scheme_of(there) is None:
        return posixpath.relpath(there, here)
    return posixpath.relpath(there, here) if here.split("/")[:3] == there.split("/")[:3] else None


def absolute_place(table: str, relative: str) -> str:
    """The path that a relative one means at a table's present place."""
    here = canonical(table).rstrip("/")
    start = here.index("/", here.index("://") + 3) if "://" in here else 0
    return here[:start] + posixpath.normpath(posixpath.join(here[start:], relative))


def _app_id(table_id: str) -> str:
    return f"rowlock.prepared/{table_id}"
