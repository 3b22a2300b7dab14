"""Judges the policies `fail` and `rerun`: a statement is committed where it changes the same rows as on the version that it has read, and by row fails only where not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from rowlock.exceptions import (
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
    RowlockError,
)
from rowlock_simulation.actions import Action
from rowlock_simulation.feed import Bag
from rowlock_simulation.memory.sql.script import Delete, Update
from rowlock_simulation.serial import Row, SerialTable, State, bag, value_of

_NOT_BY_ROWS = (MetadataChangedException, ProtocolChangedException, ConcurrentTransactionException, ConcurrentWriteException)


def goes_by_rows(action: Action) -> bool:
    """Whether an action is one statement under such a policy."""
    return raises(action) and action.options.get("granularity") == "row"


def raises(action: Action) -> bool:
    """Whether an action is one statement under `fail` or `rerun`, by row or by file."""
    return action.kind == "statements" and len(action.scripts) == 1 and not action.grows and "granularity" in action.options


def overlooked(action: Action, read: State, before: State, generated: Mapping[str, str]) -> bool:
    """Whether a statement was committed after `before` although it changes other rows there than in what it has `read`; under `snapshot` more rows are none of its business.

    Where columns came or went meanwhile this is not asked.
    """
    if read[1] != before[1]:
        return False
    then, now = _changes(action, read, generated), _changes(action, before, generated)
    if then is None or now is None:
        return False
    return bool(then - now) if action.options.get("isolation") == "snapshot" else then != now


def passes_over_rows(action: Action, columns: tuple[str, ...], came: Bag, *, removes: bool) -> bool:
    """Whether a statement by file was committed although another version, which `removes` files or not, had brought rows where it reads."""
    script, level = action.scripts[0], action.options.get("isolation", "serializable")
    if action.options["granularity"] != "file" or level == "snapshot" or (level == "write_serializable" and not removes):
        return False
    if not isinstance(script, (Update, Delete)):
        return False
    with suppress(RowlockError, KeyError):  # it names a column that is not there
        return any(script.where is None or value_of(script.where, dict(zip(columns, row, strict=True))) is True for row in came)
    return False


def unfounded(action: Action, error: Exception | None, read: State, met: Iterable[State], generated: Mapping[str, str]) -> bool:
    """Whether a statement was refused for a conflict although it changes the same rows in every version that it may have met.

    By file, where the conflict is that what it has read was removed although no row has changed.
    """
    if not isinstance(error, DeltaConcurrentModificationException) or isinstance(error, _NOT_BY_ROWS):
        return False
    if not goes_by_rows(action):
        return isinstance(error, ConcurrentDeleteReadException) and all(_bag(state) == _bag(read) for state in met)
    then = _changes(action, read, generated)
    return then is not None and all(_changes(action, state, generated) == then for state in met)


def _changes(action: Action, state: State, generated: Mapping[str, str]) -> Counter[str] | None:
    """The rows that the statement would change in a version, with their new images; None where it cannot be carried out there."""
    found = touched(action, state, generated)
    return None if found is None else Counter(map(str, found))


def touched(action: Action, state: State, generated: Mapping[str, str]) -> list[tuple[Row | None, Row | None]] | None:
    """(old row, new row) of each row that the statement would change in a version; None where it cannot be carried out there."""
    rows, columns, checks, not_null, defaults = state
    try:
        return SerialTable(columns, not_null, [{c: row[c] for c in columns} for row in rows], checks, defaults, dict(generated)).touched(action.scripts[0])
    except (RowlockError, KeyError):
        return None


def _bag(state: State) -> Counter[str]:
    return bag({c: row[c] for c in state[1]} for row in state[0])
