"""The rules of group commit, by exploring every state of a small model (I1, I2).

Two processes have one transaction each, a third writer commits something else: what the first process has
posted, once more, when that has died and its post's time is over.  A process posts, scans the
log, puts a version for itself and for what it found posted, loses replies, gives up, stands still, dies.  Puts may land
late.  In every state that can be reached: no transaction is in two versions, who was told of a version is in
it, who was told of a failure is in none, and what was done once more is not committed after that.
Each rule is then taken out, and the model must find the harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

VERSIONS = 4
RERUN = -2


@dataclass(frozen=True)
class Rules:
    searches_for_members: bool = True
    searches_for_markers: bool = True
    marks_before_failing: bool = True
    searches_for_itself: bool = True
    adopts_who_lives: bool = True


@dataclass(frozen=True)
class Version:
    by: int
    members: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Writer:
    """`at`: new, idle, ready, unknown, aborting, marking; then ok, failed or dead."""

    at: str = "new"
    head: int = 0
    members: frozenset[int] = frozenset()


@dataclass(frozen=True)
class State:
    log: tuple[Version, ...] = ()
    posted: frozenset[int] = frozenset()
    expired: frozenset[int] = frozenset()
    late: frozenset[tuple[int, Version]] = frozenset()
    writers: tuple[Writer, ...] = (Writer(), Writer())
    other: bool = True

    def with_writer(self, n: int, **changes: object) -> State:
        writers = list(self.writers)
        writers[n] = replace(writers[n], **changes)  # type: ignore[arg-type]
        return replace(self, writers=tuple(writers))

    def put(self, head: int, version: Version) -> State | None:
        """Put if absent: None where it is lost."""
        return replace(self, log=(*self.log, version)) if len(self.log) == head < VERSIONS else None


def steps(s: State, rules: Rules) -> Iterator[State]:
    again = s.writers[0].at == "dead" and 0 in s.expired and not any(0 in v.members for v in s.log)
    if s.other and (after := s.put(len(s.log), Version(RERUN if again else -1))):
        yield replace(after, other=False)
    for n in s.posted - s.expired:  # time passes, and the owner has not renewed it
        yield replace(s, expired=s.expired | {n})
    for head, version in s.late:
        landed = s.put(head, version)
        yield replace(landed or s, late=s.late - {(head, version)})
    for n, w in enumerate(s.writers):
        yield from of_writer(s, n, w, rules)


def of_writer(s: State, n: int, w: Writer, rules: Rules) -> Iterator[State]:
    if w.at in ("ok", "failed", "dead"):
        return
    yield s.with_writer(n, at="dead")
    committed = frozenset(t for v in s.log for t in v.members)
    aborted = frozenset(t for v in s.log for t in v.aborted)
    if w.at == "new":
        yield replace(s, posted=s.posted | {n}).with_writer(n, at="idle")
    elif w.at == "idle":
        if n in committed and rules.searches_for_itself:
            yield s.with_writer(n, at="ok")
            return
        guests = s.posted - {n}
        guests -= committed if rules.searches_for_members else frozenset()
        guests -= aborted if rules.searches_for_markers else frozenset()
        guests -= s.expired if rules.adopts_who_lives else frozenset()
        for more in {frozenset[int](), guests}:
            yield s.with_writer(n, at="ready", head=len(s.log), members=more | {n})
        yield s.with_writer(n, at="aborting" if rules.marks_before_failing else "failed")
    elif w.at == "ready":
        ours = Version(n, w.members)
        after = s.put(w.head, ours)
        yield after.with_writer(n, at="ok") if after else s.with_writer(n, at="idle")
        yield (after or s).with_writer(n, at="unknown")
        if len(s.late) < 2:
            yield replace(s, late=s.late | {(w.head, ours)}).with_writer(n, at="unknown")
    elif w.at == "unknown":
        if len(s.log) > w.head:
            yield s.with_writer(n, at="ok" if s.log[w.head].by == n else "idle")
        else:
            yield s.with_writer(n, at="ready")
            yield s.with_writer(n, at="aborting" if rules.marks_before_failing else "failed")
    elif w.at == "aborting":
        yield s.with_writer(n, at="ok") if n in committed else s.with_writer(n, at="marking", head=len(s.log))
    elif w.at == "marking":
        marked = s.put(w.head, Version(n, aborted=frozenset({n})))
        yield marked.with_writer(n, at="failed") if marked else s.with_writer(n, at="aborting")


def harm(s: State) -> str | None:
    rerun = next((n for n, v in enumerate(s.log) if v.by == RERUN), VERSIONS)
    if any(0 in v.members for v in s.log[rerun:]):
        return "committed after it was done once more"
    for n, w in enumerate(s.writers):
        times = sum(n in v.members for v in s.log)
        if times > 1:
            return "twice"
        if w.at == "ok" and times == 0:
            return "told of a version that does not have it"
        if w.at == "failed" and times:
            return "told of a failure, and committed"
    return None


def explore(rules: Rules, *, to_first_harm: bool = False) -> tuple[int, set[str]]:
    """(states, kinds of harm found)."""
    seen, front, found = {State()}, [State()], set[str]()
    while front:
        after: list[State] = []
        for s in front:
            if (bad := harm(s)) is not None:
                found.add(bad)
                if to_first_harm:
                    return len(seen), found
                continue
            for t in steps(s, rules):
                if t not in seen:
                    seen.add(t)
                    after.append(t)
        front = after
    return len(seen), found


def test_no_state_does_harm() -> None:
    states, found = explore(Rules())
    assert not found and states > 5_000


@pytest.mark.parametrize("rule", ["searches_for_members", "searches_for_markers", "marks_before_failing", "searches_for_itself", "adopts_who_lives"])
def test_every_rule_is_needed(rule: str) -> None:
    _, found = explore(replace(Rules(), **{rule: False}), to_first_harm=True)
    assert found
