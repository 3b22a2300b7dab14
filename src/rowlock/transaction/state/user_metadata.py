"""The text of the user's own that the commits of a call carry in their commitInfo (Delta's `userMetadata`).

It belongs to the call, not to the transaction: whatever the call commits, rows or a change of the definition, carries it.  Where no argument
says one, the session may: it is asked when the first commit is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Ask = Callable[[], str | None]
"""Asks the session for its text."""

_current: ContextVar[Ask | None] = ContextVar("user metadata of this call", default=None)


@contextmanager
def saying(text: str | None, session: Ask | None = None) -> Iterator[None]:
    """All commits of the block carry `text`; where that is None, what an outer block says, else what `session` answers."""
    if text is None and (session is None or _current.get() is not None):
        yield
        return
    token = _current.set(_once(session) if text is None and session is not None else lambda: text)
    try:
        yield
    finally:
        _current.reset(token)


def user_metadata() -> str | None:
    """The text that a commit of this call carries; None where nobody said one."""
    ask = _current.get()
    return None if ask is None else ask()


def _once(ask: Ask) -> Ask:
    found: list[str | None] = []

    def answer() -> str | None:
        if not found:
            found.append(ask())
        return found[0]

    return answer
