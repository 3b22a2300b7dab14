"""Judges what transactions tell people: receipts, the records of them in commits, conflicts in errors, and the records of failed attempts beside the table."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from rowlock.advice.attempts import FOLDER
from rowlock.conflict.value import Conflict
from rowlock.exceptions import CommitUnknown, DeltaConcurrentModificationException, MetadataChangedException
from rowlock.protocol.actions import Commit
from rowlock_simulation.altered import Defined
from rowlock_simulation.described import PLACED
from rowlock_simulation.history import History
from rowlock_simulation.memory.sql.script import Append, Update
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.policies import touched
from rowlock_simulation.serial import State

_DRIFT = 1.03
"""So much faster than true time a clock of a process may run."""
_IDLE_PROPERTIES = ("delta.checkpointInterval", "delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
"""Properties of Delta that no statement goes by."""
_MAX_ID, _OF_COLUMNS = "delta.columnMapping.maxColumnId", ("delta.columnMapping.id", "delta.columnMapping.physicalName")
_OPERATIONS = {
    **dict.fromkeys(("comment", "move", "set not null", "drop not null", "set default", "drop default", "widen"), "CHANGE COLUMN"),
    "add": "ADD COLUMNS", "rename": "RENAME COLUMN", "drop": "DROP COLUMNS", "add constraint": "ADD CONSTRAINT", "drop constraint": "DROP CONSTRAINT",
    "cluster": "CLUSTER BY", "unset": "UNSET TBLPROPERTIES",
}  # fmt: skip
"""The operations of ALTER TABLE by its verb, as delta-spark calls them."""


def misreported(o: Outcome, commits: Mapping[int, Commit]) -> Iterator[str]:
    """What a receipt says other than is true, as phrases."""
    receipt = o.done.receipt
    if receipt is None or receipt.version is None or receipt.version not in commits:
        return
    commit, shown = commits[receipt.version], repr(receipt)
    if f"committed as version {receipt.version}" not in shown or receipt.txn_id not in shown:
        yield f"its text is {shown}"
    if receipt.txn_id in commit.txn_ids and receipt.group_size != max(1, len(commit.txn_ids)):
        yield f"it shares its version with {receipt.group_size - 1} others, and {len(commit.txn_ids)} transactions are in it"
    if sum(receipt.seconds.values()) > _DRIFT * (o.until_us - o.began_us) / 1e6 + 0.01 or any(s < 0 for s in receipt.seconds.values()):
        yield f"its seconds are {dict(receipt.seconds)}, of an action that took {(o.until_us - o.began_us) / 1e6}"
    for conflict in receipt.conflicts:
        yield from _wrong_conflict(conflict, receipt.read_version, commits)
        if conflict.version >= receipt.version:
            yield f"it met version {conflict.version}, which is not before its own"


def followed_too_many(o: Outcome, commit: Commit, before: Sequence[Commit], states: Sequence[State], generated: Mapping[str, str]) -> bool:
    """Whether more rows followed compactions than the statement has touched in any version from the one that it read on, each time that one came before its commit.

    `lockless` counts rows that any other statement has moved.
    """
    record: Mapping[str, Any] = (commit.info.rowlock if commit.info is not None else None) or {}
    if not record.get("rows_followed") or o.action.is_lockless or o.action.kind != "statements" or len(o.action.scripts) != 1:
        return False
    found = [touched(o.action, state, generated) for state in states]
    compactions = sum(any(r.tags and PLACED in r.tags for r in c.removes) for c in before)
    return None not in found and record["rows_followed"] > compactions * max(sum(old is not None for old, _ in t or ()) for t in found)


def _wrong_conflict(conflict: Conflict, read: int, commits: Mapping[int, Commit]) -> Iterator[str]:
    """What is wrong with the account of another's commit."""
    winner = commits.get(conflict.version)
    if conflict.version <= read:
        yield f"it names version {conflict.version}, which it had read"
    if winner is not None and winner.info is not None and conflict.txn_id is not None and conflict.txn_id != winner.txn_id:
        yield f"it says that version {conflict.version} is of {conflict.txn_id}"
    elif winner is not None and winner.info is not None and conflict.txn_id is not None and conflict.operation != winner.info.operation:
        yield f"it calls version {conflict.version} {conflict.operation}, and it is {winner.info.operation}"
    if conflict.rule == "removed files" and winner is not None and not {r.path for r in winner.removes if r.data_change}.issuperset(conflict.files):
        yield f"it says that version {conflict.version} removed rows of {', '.join(conflict.files)}"
    if (", at " in (text := conflict.text("it"))) != (conflict.timestamp_ms is not None):
        yield f"its text of a conflict is {text}"


def misexplained(o: Outcome, commits: Mapping[int, Commit], states: Sequence[State]) -> Iterator[str]:
    """What an error says of the commit that it was a conflict with, other than is true."""
    conflict: Conflict | None = getattr(o.error, "conflict", None)
    if conflict is None or not o.read_at:
        return
    read = list(o.read_at.values())[-1]
    yield from _wrong_conflict(conflict, read, commits)
    if conflict.what.endswith(("staged: .", "staged: ,")):
        yield f"it does not name what changed: {conflict.what}"
    script = o.action.scripts[0] if len(o.action.scripts) == 1 else None
    if (
        conflict.rule == "rows changed by both"
        and isinstance(script, Update)
        and len(conflict.rows) == 1
        and not conflict.columns
        and conflict.version < len(states)
    ):
        before, after = ({row["k"]: row for row in states[v][0]}.get(conflict.rows[0]["k"], {}) for v in (read, conflict.version))
        sets = {c for c, _ in script.assignments}
        if (script.where or "").startswith("k = ") and any(before.get(c) != after.get(c) for c in sets) and before.keys() == after.keys():
            yield f"it does not say that {', '.join(sorted(sets))} changed"
    if conflict.rule == "rows changed by both" and (wrong := set(conflict.columns) - _changed(states, read)):
        yield f"it says that {', '.join(sorted(wrong))} changed"


def _changed(states: Sequence[State], read: int) -> set[str]:
    """The columns in which a row has another value in a later version than in the one that was read; all of them where columns came and went."""
    rows, columns, *_ = states[read]
    then, out = {row["k"]: row for row in rows}, set[str]()
    for later, names, *_ in states[read + 1 :]:
        if names != columns:
            return {*names, *columns}
        out |= {c for row in later if row["k"] in then for c in columns if row[c] != then[row["k"]][c]}
    return out


def misnamed(commit: Commit, o: Outcome) -> Iterator[str]:
    """What `commitInfo` and its record say of an action and its program, other than is true, as phrases."""
    info = commit.info.raw if commit.info is not None else {}
    record = info.get("rowlock") or {}
    wanted = _OPERATIONS.get(o.action.alter[0]) if o.action.kind == "alter" else None
    if wanted is not None and info.get("operation") != wanted:
        yield f"its operation is {info.get('operation')}, and not {wanted}"
    if o.action.kind != "foreign" and not o.action.unaware and (program := (record.get("writer") or {}).get("application")) != _program():
        yield f"its program is {program!r}"
    if any(seconds != round(seconds, 4) for seconds in (record.get("seconds") or {}).values()):
        yield f"its seconds are {record['seconds']}"


def _program() -> str:
    """The name of this program as commits have it."""
    path = Path(sys.argv[0])
    return "python" if sys.argv[0] in ("", "-c", "-") else path.parent.name if path.name == "__main__.py" else path.name


def ran_in_vain(commit: Commit, o: Outcome, defined: Sequence[Defined], commits: Sequence[Commit]) -> str | None:
    """The versions over which a statement was run again although no definition changed in them that it goes by; None if there are none."""
    record: Mapping[str, Any] = (commit.info.rowlock if commit.info is not None else None) or {}
    here = {o.begun_on.get(t) for t in commit.txn_ids}  # the table may have been dropped and made again between two tries
    tries = [t for t in (*record.get("rerun_of", ()), *sorted(commit.txn_ids)) if t in o.read_at and o.begun_on.get(t) in here]
    policy = o.action.options.get("on_conflict", "repair")
    if o.action.kind == "statements" and not o.action.grows and policy in ("repair", "rerun") and len(commit.txn_ids) == 1:
        for one, other in pairwise(tries):
            between = commits[o.read_at[one] + 1 : o.read_at[other] + 1]
            if policy == "rerun" and any(c.adds or c.removes or c.txns for c in between):
                continue
            appends = all(isinstance(s, Append) for s in o.action.scripts)
            if not _matters(defined, o.read_at[one] + 1, o.read_at[other] + 1, appends=appends, schema=policy == "rerun"):
                return f"{o.read_at[one]} to {o.read_at[other]}"
    return None


def refused_in_vain(o: Outcome, defined: Sequence[Defined], met: Sequence[int]) -> bool:
    """Whether a statement was refused for a definition that did not change in any version that it may have met."""
    if not isinstance(o.error, MetadataChangedException) or o.action.kind != "statements" or o.action.grows or not met:
        return False
    return not _matters(defined, met[0], met[-1] + 1, schema=True)


def _matters(defined: Sequence[Defined], first: int, stop: int, *, appends: bool = False, schema: bool = False) -> bool:
    """Whether a definition changed in one of these versions in what statements go by; appends pass over columns that come and may be null.

    `schema`: any change of it counts, as in Delta's own rules, comments included.
    """
    pairs = [(defined[v - 1], defined[v]) for v in range(max(1, first), min(stop, len(defined)))]
    plain = [_plain(one, other) if appends else () for one, other in pairs]
    if schema and any(one.metadata.schema_string != other.metadata.schema_string for one, other in pairs):
        return True
    return any(_terms(one, came) != _terms(other, came) for (one, other), came in zip(pairs, plain, strict=True))


def _plain(before: Defined, after: Defined) -> Collection[str]:
    """The columns that came and may be null, with no value of their own."""
    own = [*_OF_COLUMNS, "comment"]
    return [n for n, f in after.fields.items() if n not in before.fields and f["nullable"] and not f["metadata"].keys() - own]


def _terms(d: Defined, without: Collection[str] = ()) -> tuple[Any, ...]:
    """What of a definition statements may go by."""
    properties = {k: v for k, v in d.metadata.configuration.items() if k.startswith("delta.") and k not in _IDLE_PROPERTIES and (k != _MAX_ID or not without)}
    fields = [(n, f["type"], f["nullable"], {k: v for k, v in f["metadata"].items() if k != "comment"}) for n, f in d.fields.items() if n not in without]
    return d.protocol, d.metadata.id, d.metadata.partition_columns, properties, fields


def misrecorded(history: History, outcomes: Sequence[Outcome], committed: Iterable[str]) -> Iterator[str]:
    """What the records of failed attempts say other than is true, as phrases."""
    of, landed, seen = {t: o for o in outcomes for t in o.txn_ids}, set(committed), set[str]()
    for key, data in history.objects.items():
        account = orjson.loads(data) if key.startswith(FOLDER) else {}
        o = of.get(txn_id := account.get("txn_id", ""))
        if o is None or o.on_table < history.table:
            continue
        if txn_id in seen:
            yield f"{o.name} is recorded twice as failed"
        seen.add(txn_id)
        if account["outcome"] == "conflict" and txn_id in landed:
            yield f"{o.name} is recorded as failed, and was committed"
        met = [c["version"] for c in account["account"].get("conflicts", ()) if "version" in c]
        if account["head_version"] < max([account["read_version"], *met]):
            yield f"{o.name} is recorded as failed at version {account['head_version']}, and had met {met}"
        if o.error is None or o.txn_ids[-1] != txn_id:
            continue
        final = isinstance(o.error, (CommitUnknown, DeltaConcurrentModificationException))  # others may have come when it was to run again
        if final and account["error"] != type(o.error).__name__:
            yield f"{o.name} is recorded as failed by {account['error']}, and met {type(o.error).__name__}"
        conflict: Conflict | None = getattr(o.error, "conflict", None)
        if conflict is not None and conflict.version not in met:
            yield f"{o.name} is recorded without version {conflict.version}, which it failed by"
