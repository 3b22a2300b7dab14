"""Shallow clones of the simulated table: how they are made, and their judge.

A clone is judged as a table of its own, whose rows begin as those of the version that was cloned.  Files that it names in another table's folder are that
table's: where VACUUM has deleted them there, which the judge of that table allows or not, the clone cannot be read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress

from rowlock.exceptions import TableNotFound
from rowlock.protocol.actions import Commit
from rowlock.protocol.names import commit_key
from rowlock.transaction.definition.clone import shallow_clone
from rowlock.transaction.transaction import Table
from rowlock_simulation import judge
from rowlock_simulation.actions import Action, Done
from rowlock_simulation.history import History
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import Plan
from rowlock_simulation.raw import commits_of
from rowlock_simulation.world import Handles


def make(action: Action, name: str, table: Callable[[int], Table], done: Done) -> None:
    """Makes a clone, whose history calls its source by the `name` of the action.  Raises what the code under test raises."""
    source, target = table(action.source), table(action.table)
    newest = source.refresh()
    done.restored = max(1, newest.version - action.back)
    version = newest if done.restored >= newest.version else source.state.log.at(done.restored)
    done.restored = version.version
    done.receipt = shallow_clone(version, target.state, {}, name=name, replaces=action.replaces, count=target.statement_engine.count)


def judge_all(plan: Plan, histories: Sequence[History], outcomes: Sequence[Outcome], handles: Handles) -> list[str]:
    """What the schedule broke in the table and in its clones."""
    verdicts = list[judge.Verdict]()
    roots = [handles.table(n).state.store.root for n in range(len(histories))]
    gone = {f"{root}/{key}" for root, history in zip(roots, histories, strict=True) for key in history.deleted_keys}
    for n, history in enumerate(histories):
        own = [o for o in outcomes if o.action.table == n]
        with suppress(TableNotFound):
            handles.table(n).refresh()  # puts a commit in its place that was claimed by a process which then ended
        if not history.commits or any(_is_of_what_was_lost(o, histories) for o in own):
            lost = [f"I2: {o.name} was acknowledged as version {o.done.committed}" for o in own if o.status == "committed"]
            return [] if history.commits else lost
        _find_makers(commits_of(history), own)
        whole = copy.copy(history)
        whole.objects = {
            **history.objects,
            **{f"{root}/{key}": data for root, other in zip(roots, histories, strict=True) for key, data in other.objects.items()},
        }
        verdicts.append(judge.verdict_of(plan, whole, own, handles.table(n), sources=verdicts, gone=gone))
        if verdicts[-1].violations:
            return [f"table {n}: {text}" for text in verdicts[-1].violations]
    return []


def _find_makers(commits: Sequence[Commit], outcomes: Sequence[Outcome]) -> None:
    """Notes for each clone the transaction that made it, which its process may not have lived to learn."""
    of_name = {o.name: o for o in outcomes if o.action.kind == "clone"}
    for commit in commits:
        if commit.info is not None and commit.info.operation == "CLONE":
            maker = of_name.get(commit.info.raw["operationParameters"]["source"].strip('"'))
            if maker is not None:
                maker.txn_ids += commit.txn_ids - {*maker.txn_ids}


def _is_of_what_was_lost(outcome: Outcome, histories: Sequence[History]) -> bool:
    """Whether it cloned a version that went with the machine's power before it was durable."""
    version, lost = outcome.done.restored, histories[outcome.action.source].lost_from
    return outcome.action.kind == "clone" and version is not None and lost is not None and commit_key(version) >= lost
