"""The context of a call's commits: its session's settings, the user's own text (Delta's `userMetadata`), and the writer.

It belongs to the call, not to the transaction: all that the call commits, rows or a change of the definition, goes by it.  A session's settings are
read once for each call, when it begins.  The writer (host, process, application) is for people to read and decides nothing; the application is the first of these
that is not empty: the environment variable ROWLOCK_APPLICATION, the name of the Spark application, the name of the program.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rowlock import threads
from rowlock.parquet.writing import SETTING, compressing
from rowlock.protocol.session_settings import Settings
from rowlock.transaction.state.receipt import Receipt


@dataclass(slots=True)
class Call:
    """A call on its way.

    user_metadata  the text that its commits carry
    settings       those of its session; None without a session
    compression    the codec that a write asks for
    committed      the receipts of the versions that it committed
    """

    user_metadata: str | None = None
    settings: Settings | None = None
    compression: str | None = None
    committed: list[Receipt] = field(default_factory=list)


_current: ContextVar[Call | None] = ContextVar("the call that commits", default=None)
_NONE = Settings()


@contextmanager
def calling(
    text: str | None,
    ask: Callable[[], Settings] | None = None,
    *,
    compression: str | None = None,
    instead: Mapping[str, str | None] = MappingProxyType({}),
) -> Iterator[Call]:
    """A block whose commits carry `text`, and go by the settings that `ask` returns; its data files are compressed by `compression`.

    What is None is as an outer block has it; an outer block's settings stay, but for those `instead`, of which None is unset.  Where no text is given, the settings may name one.
    Raises InvalidInput for a codec that is none.
    """
    outer = _current.get() or Call()
    settings = outer.settings if outer.settings is not None else ask() if ask is not None else None
    if instead:
        changed = {**(settings or _NONE).given, **instead}
        settings = Settings({name: value for name, value in changed.items() if value is not None})
    if text is None:
        text = outer.user_metadata
    if text is None and settings is not None:
        text = settings.text("commitInfo.userMetadata")
    call = Call(text, settings, compression or outer.compression, outer.committed)
    with threads.holding(_current, call), compressing(call.compression, None if settings is None else settings.given.get(SETTING)):
        yield call


def is_within() -> bool:
    """Whether this is within a call whose session's settings are known."""
    call = _current.get()
    return call is not None and call.settings is not None


def settings() -> Settings:
    """The settings of the session whose call this is; none are set where there is no session."""
    call = _current.get()
    return _NONE if call is None or call.settings is None else call.settings


def most_records(given: int | None = None) -> int | None:
    """How many rows a file may have: as a write says, where 0 is no limit, else the session's setting; None where nothing bounds them."""
    if given is None:
        given = int(settings().text("spark.sql.files.maxRecordsPerFile") or 0)
    return given if given > 0 else None  # as Spark has it, no limit below 1


def user_metadata() -> str | None:
    """The text that a commit of this call carries; None where none was given."""
    call = _current.get()
    return None if call is None else call.user_metadata


_BATCH = "STREAMING UPDATE"
_told: ContextVar[tuple[str, Mapping[str, Any]] | None] = ContextVar("what the history calls a write of rows, and its parameters", default=None)


def told_as(operation: str, parameters: Mapping[str, Any]) -> AbstractContextManager[None]:
    """A block whose writes of rows have this operation in the history, with these parameters, as delta-spark has it."""
    return threads.holding(_told, (operation, parameters))


def writing_batch(query: str, number: int, mode: str) -> AbstractContextManager[None]:
    """A block whose writes are batch `number` of a stream's query, in an output mode such as Append."""
    return told_as(_BATCH, {"outputMode": mode, "queryId": query, "epochId": str(number)})


def in_history(operation: str, parameters: Mapping[str, Any], metrics: Mapping[str, int]) -> tuple[str, Mapping[str, Any], Mapping[str, int]]:
    """An operation, its parameters and its metrics as the history has them."""
    told = _told.get()
    if told is None or operation != "WRITE":
        return operation, parameters, metrics
    if told[0] != _BATCH:
        return told[0], {**told[1], **{name: value for name, value in parameters.items() if name not in ("mode", "partitionBy")}}, metrics
    named = {"numAddedFiles" if name == "numFiles" else name: n for name, n in metrics.items() if name != "numRemovedBytes"}
    return *told, {"numRemovedFiles": 0, **named}


def may_share_version() -> bool:
    """Whether a commit of this call may share its version with others': nothing was said of it alone, by its user or by a stream."""
    return user_metadata() is None and _told.get() is None


def landed(receipt: Receipt) -> Receipt:
    """Notes a commit for its call; returns the receipt."""
    call = _current.get()
    if call is not None and receipt.version is not None:
        call.committed.append(receipt)
    return receipt


VARIABLE = "ROWLOCK_APPLICATION"
_LONGEST = 200
_USUAL_NAMES = ("", "rowlock", "pyspark-shell", "Spark Connect server")
"""Names that sessions have whose user gave them none."""

_session_name: ContextVar[Callable[[], str] | None] = ContextVar("asks the session of this call for its application's name", default=None)


def in_session(name: Callable[[], str]) -> AbstractContextManager[None]:
    """The commits of the block record the application that `name` returns; it is called for each commit, so it must be quick."""
    return threads.holding(_session_name, name)


def writer() -> dict[str, Any]:
    """Plain values for commitInfo: `host`, `process` (its id) and `application`."""
    return {"host": _text(_host()), "process": os.getpid(), "application": _text(_application())}


def _text(name: str) -> str:
    """A name as a commit can hold it: names of files and variables may be no UTF-8."""
    return name[:_LONGEST].encode("utf-8", "replace").decode()


def _application() -> str:
    if named := os.environ.get(VARIABLE, "").strip():
        return named
    ask = _session_name.get()
    name = "" if ask is None else ask()
    return _program(sys.argv[0] if sys.argv and sys.argv[0] not in ("-c", "-") else "python") if name in _USUAL_NAMES else name


@functools.cache
def _host() -> str:
    return socket.gethostname()


@functools.cache
def _program(file: str) -> str:
    """The name of the script or module that is in a file."""
    return (path.parent if (path := Path(file)).name == "__main__.py" else path).name
