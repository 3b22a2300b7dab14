"""Judges schedules on a store that fails nobody: who is alone is in nobody's way, failed attempts are recorded, leases are taken, and appends share versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import orjson

from rowlock.advice.attempts import FOLDER as ATTEMPTS
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.locks.turns import _MARGIN_S, AFTER, LOOK_S, PATIENCE_S
from rowlock.protocol.actions import Commit
from rowlock.protocol.names import commit_key
from rowlock.protocol.properties import MANIFESTS
from rowlock.transaction.group_commit.between_processes import FOLDER as QUEUE
from rowlock.transaction.group_commit.lead import HAND_OVER_AFTER
from rowlock_simulation.altered import Defined
from rowlock_simulation.history import LOCKS, History
from rowlock_simulation.memory.sql.script import Append, Optimize
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import Plan
from rowlock_simulation.roles import ALONE, LONG, SHARING

_PHASES = ("begin", "written", "before_put", "after_put", "committed")
_DRIFT = 0.95
"""Of the term of a lease so much passes at least, by any clock."""
_SOON_US = 2_200_000
"""Within this time one of those commits who wait for the end of a turn, beside a long writer, whose store is fast."""


def disturbed(plan: Plan, history: History, outcomes: Sequence[Outcome], commits: Sequence[Commit], defined: Sequence[Defined]) -> Iterator[str]:
    """What is not as it must be where nothing went wrong, as sentences."""
    if plan.faults or plan.night_s:
        return
    recorded = {orjson.loads(data).get("txn_id") for key, data in history.objects.items() if key.startswith(ATTEMPTS)}
    end_us = max((o.until_us for o in outcomes), default=0)  # with the last actor its process ends, and the thread that writes records
    for o in outcomes:
        conflict = isinstance(o.error, DeltaConcurrentModificationException) and o.action.kind == "statements" and o.txn_ids
        if conflict and o.until_us < end_us - _SOON_US and o.txn_ids[-1] not in recorded and not history.table:
            yield f"{o.name} failed by a conflict, and there is no record of it"
    yield from _turns_too_early(plan, history, outcomes)
    leased = {g["id"] for _, data in history.leases for g in orjson.loads(data)["grants"]}
    first = [o for o in outcomes if len(o.txn_ids) == 1 and _wants_lease(o)]  # who is run again does not wait again
    waited = [o for o in first if o.done.receipt is not None and o.done.receipt.seconds.get("lock", 1e9) < 0.9 * o.action.options["lock_timeout"]]
    if len(leased) < len(waited) and history.table == 0:
        yield f"I7: {len(waited)} actions stood in line for a lease, and {len(leased)} leases were given"
    if plan.theme == LONG:
        yield from _overtaken_too_often(plan, outcomes)
    if plan.theme == ALONE:
        yield from _in_the_way(history, outcomes, remote=plan.world != "local")
        yield from _undone(history, outcomes, commits, defined)
    if plan.theme == SHARING:
        process = {a.name: a.process for a in plan.actors}
        of = {t: process[o.actor] for o in outcomes if o.actor in process for t in o.txn_ids}
        together = [Counter(of[t] for t in c.txn_ids if t in of) for c in commits]
        if max(map(len, together)) < 2 or max(max(c.values(), default=0) for c in together) < 2:
            yield f"of {len(of)} appends that were posted none shared a version within a process, or between two"


def _overtaken_too_often(plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A long writer loses as many puts as make it announce a turn, and to each of the others one that was under way then (I8)."""
    most = AFTER + len(plan.actors)
    for o in outcomes:
        if o.actor == "a0" and (o.done.receipt is None or o.done.receipt.attempts > most):
            yield f"I8: {o.name} {o.status} after {o.done.receipt.attempts if o.done.receipt else 'no'} puts, of which {most} are enough"


def posted_too_early(plan: Plan, history: History, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The first append that was posted for others, where its process had not lost as many puts as it takes: later ones may be posted since others do it.

    That may have been in a try which failed just before.  On a local disk who waits for another process's commit posts without having lost any.
    """
    first = next((data for key, data in history.objects.items() if key.startswith(QUEUE)), None)
    if first is None or plan.world == "local" or history.table or any(action.posts for a in plan.actors for action in a.actions):
        return
    at_work = Counter(a.process for a in plan.actors)
    alone = {a.name for a in plan.actors if at_work[a.process] == 1}
    lost = Counter[str]()  # in one try, since the last commit of an actor
    for o in outcomes:
        receipt = o.done.receipt
        tries = " ".join(o.phases).split("begin")
        lost[o.actor] = max(lost[o.actor], *(phases.count("after_put") - phases.count("committed") for phases in tries))
        if o.actor in alone and receipt is not None and receipt.txn_id.encode() in first and lost[o.actor] < HAND_OVER_AFTER:
            yield f"{o.name} was posted for others after {lost[o.actor]} lost puts"
        if receipt is not None and receipt.version is not None:  # a step that was there already is no commit: the puts that it lost still count
            lost[o.actor] = 0


def _turns_too_early(plan: Plan, history: History, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Turns of writers who had not lost enough work for one, that are too long, before which the others had no time to look, and that nobody has ended or that others waited for when it had ended."""
    of = {o.done.receipt.txn_id: o for o in outcomes if o.done.receipt is not None and o.done.receipt.version is not None}
    turns = [(at_us, orjson.loads(data)) for at_us, data in history.turns]
    moves_us = sorted([*history.committed_us.values(), *(at_us for at_us, turn in turns if turn["holder"] is not None)])
    for at_us, turn in turns:
        if turn["holder"] is None:
            following = next((us for us in moves_us if us > at_us), None)  # a commit, or the next turn, for which the others wait again
            if (
                plan.theme == LONG
                and following is not None
                and following - at_us > _SOON_US
                and any(o.began_us < at_us and o.until_us > following for o in of.values())
            ):
                yield f"I8: a turn had ended, and others waited for {(following - at_us) / 1e6:.3f} s more"
        elif (o := of.get(turn["holder"])) is not None and (receipt := o.done.receipt) is not None:
            if receipt.attempts <= AFTER or o.until_us - o.began_us < _DRIFT * PATIENCE_S * 1e6:
                yield f"I8: a writer announced a turn who took {receipt.attempts} puts and {(o.until_us - o.began_us) / 1e6:.3f} s"
            if turn["term_s"] > LOOK_S + 2 * (at_us - o.began_us) / 1e6 / _DRIFT + _MARGIN_S:
                yield f"I8: a writer announced a turn of {turn['term_s']:.3f} s, {(at_us - o.began_us) / 1e6:.3f} s after it had begun"
            if history.committed_us.get(commit_key(receipt.version or 0), at_us + 1e9) - at_us < _DRIFT * LOOK_S * 1e6:
                yield f"I8: a writer announced a turn, and committed before others had looked ({o.name})"
    if turns and turns[-1][1]["holder"] in of:
        yield f"I8: {turns[-1][1]['holder']} has committed, and its turn was not ended"


def _in_the_way(history: History, outcomes: Sequence[Outcome], *, remote: bool) -> Iterator[str]:
    """What somebody who is alone did as if there were others."""
    for o in outcomes:
        receipt = o.done.receipt
        if receipt is None or receipt.version is None:
            continue
        if (receipt.attempts, receipt.rounds, receipt.conflicts, receipt.group_size) != (1, 0, (), 1):
            yield f"{o.name} was alone, and took {receipt.attempts} puts and {receipt.rounds} rebases, and met {receipt.conflicts}"
        if o.action.kind == "statements" and [p for p in o.phases if p in _PHASES] != list(_PHASES):
            yield f"{o.name} was alone, and went through the phases {o.phases}"
    shared = [
        o for o in outcomes if o.status == "committed" and "lane" not in o.action.options and o.action.scripts and isinstance(o.action.scripts[0], Append)
    ]
    if remote and history.looked_for_posts == 0 and any(o.actor != "setup" and o.began_us > 1e6 for o in shared):
        yield "nobody looked for posts of others"
    for key in history.objects:
        if key.startswith((QUEUE, ATTEMPTS, f"{LOCKS}/turn")):
            yield f"{key} was written, and there was nobody else"


def _undone(history: History, outcomes: Sequence[Outcome], commits: Sequence[Commit], defined: Sequence[Defined]) -> Iterator[str]:
    """Checkpoints and manifests that somebody who is alone must have written."""
    for version in range(1, len(commits)):
        due = version % int(defined[version].metadata.configuration.get("delta.checkpointInterval", 10)) == 0
        if due and not any(key.startswith(f"{commit_key(version)[:-5]}.checkpoint.") for key in history.objects):
            yield f"the checkpoint of version {version} was due, and was not written"
    live: dict[str, str] = {}
    for commit in commits:
        live = {p: at for p, at in live.items() if p not in {r.path for r in commit.removes}} | {a.path: a.path for a in commit.adds}
    kept = {k: data for k, data in history.objects.items() if k.startswith("_symlink_format_manifest") and k not in history.deleted_keys}
    if all(d.is_on(MANIFESTS) for d in defined) and (named := {line.rpartition("/")[2] for data in kept.values() for line in data.decode().splitlines()}) != {
        path.rpartition("/")[2] for path in live
    }:
        yield f"the manifests name {len(named)} files, and {len(live)} live"


def _wants_lease(o: Outcome) -> bool:
    lock, works = o.action.options.get("lock", "none"), not all(isinstance(s, (Append, Optimize)) for s in o.action.scripts)
    return o.action.kind == "statements" and (lock == "table" or (lock in ("writes", "partition") and works))


def locked_otherwise(o: Outcome) -> str | None:
    """How an action stood in line for a lease other than it was asked to, as a phrase; None if it did as it was asked."""
    receipt, lock = o.done.receipt, o.action.options.get("lock", "none")
    if receipt is None or receipt.version is None or o.action.kind != "statements" or lock == "auto":
        return None
    waits = "lock" in receipt.seconds
    return None if waits == _wants_lease(o) else f"{'stood' if waits else 'did not stand'} in line for a lease under lock={lock}"


def taken_too_early(history: History) -> Iterator[str]:
    """Leases that were taken over before their holder had been silent for their term."""
    heard: dict[str, tuple[int, int]] = {}
    before: Mapping[str, float] = {}
    epoch = 0
    for at_us, data in history.leases:
        table = orjson.loads(data)
        grants = {g["id"]: g for g in table["grants"]}
        gone, fresh = before.keys() - grants.keys(), grants.keys() - before.keys()
        known = table["epoch"] == epoch + 1  # else the power was lost, and with it what was written last
        for g in gone if fresh and known else ():  # who releases its own lease takes no other at once
            if at_us - heard[g][1] < _DRIFT * before[g] * 1e6:
                yield f"I7: a lease was taken over {(at_us - heard[g][1]) / 1e6} s after its last renewal, and its term is {before[g]} s"
        if any(value == "null" for grant in grants.values() for scope in grant["scopes"] for _, value in scope):
            yield f"I7: a lease covers rows without a value, and nobody asks for them: {table}"
        for g, grant in grants.items():
            if g not in heard or heard[g][0] != grant["renewals"]:
                heard[g] = grant["renewals"], at_us
        epoch, before = table["epoch"], {g: grant["term_s"] for g, grant in grants.items()}
