"""Draws one schedule as SVG: a lane for each actor, a bar for each action, marks for puts of versions, faults and kills.

Steps are drawn at equal distances in the order in which they happened, since virtual time stands still for many of them and jumps over hours at others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import get_args

from rowlock_simulation.memory.sql.script import render
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import FaultKind
from rowlock_simulation.run import Result
from rowlock_simulation.scheduler import Trace

_LEFT, _TOP, _LANE, _WIDTH, _LETTER = 130, 64, 66, 1180, 6.3
_PUT = re.compile(r"(?:create|claim|link|late claim|rename) \S*?(\d{20})\.json(?:: (.+))?$")
_MADE, _REFUSED = (None, "done", "sent twice"), ("AlreadyExistsError", "PreconditionError", "ClientError")
_FAULTS = frozenset(get_args(FaultKind))
_ENDS = {"committed": "won", "nothing": "idle", "failed": "failed", "crashed": "crashed", "interrupted": "crashed"}
_STYLE = """text { font: 12px system-ui, sans-serif; fill: #1f2328 } .small { fill: #59636e; font-size: 11px } .fault { fill: #b3261e; font-size: 11px }
.won { fill: #c8e6c9 } .idle { fill: #e3e7ee } .failed { fill: #ffd9c7 } .crashed { fill: none; stroke: #b3261e; stroke-dasharray: 4 3 }
.call { stroke: #8a94a3 } .version { stroke: #2e7d32; stroke-dasharray: 2 4 } .put { fill: #2e7d32 } .lost { fill: #ffffff; stroke: #c05a00; stroke-width: 2 } .hit { fill: #b3261e }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9aa4b0 } .fault { fill: #ff8a80 } .won { fill: #245c2a } .idle { fill: #3a424d } .failed { fill: #70402a }
.crashed { stroke: #ff8a80 } .call { stroke: #6b7480 } .version { stroke: #81c784 } .put { fill: #81c784 } .lost { fill: #0d1117 } .hit { fill: #ff8a80 } }"""


@dataclass(frozen=True, slots=True)
class Put:
    """A try to make a version: at which step, by which actor, and whether it won."""

    step: int
    actor: str
    version: int
    won: bool


def puts(trace: Trace) -> list[Put]:
    """The puts of commit files.  Who names a version first without an error has made it; of a put that was sent twice the first has, and the client hears of the second."""
    out: list[Put] = []
    made: set[int] = set()
    for step, (_, actor, what) in enumerate(trace):
        if (found := _PUT.match(what)) is not None and found[2] in (*_MADE, *_REFUSED):
            version, won = int(found[1]), found[2] in _MADE and int(found[1]) not in made
            made |= {version} if won else set()
            out.append(Put(step, actor, version, won))
    return out


def drawn(result: Result) -> str:
    """The schedule as the text of an SVG file."""
    trace, actors, tried = result.trace, [a.name for a in result.plan.actors], puts(result.trace)
    first = next((n for n, (_, actor, _) in enumerate(trace) if actor in actors), 0)
    last = max((n for n, (_, actor, _) in enumerate(trace) if actor in actors), default=0)
    scale = (_WIDTH - _LEFT - 20) / max(1, last - first)

    def x(step: int) -> float:
        return round(_LEFT + (step - first) * scale, 1)

    lanes = {actor.name: _TOP + _LANE * n for n, actor in enumerate(result.plan.actors)}
    height = _TOP + _LANE * len(lanes) + 26
    parts = [f'<text x="10" y="20" font-weight="600">World {result.plan.world}, seed {result.plan.seed}: {escape(result.plan.theme)}</text>']
    for put in tried:
        if put.won and put.step >= first:
            parts.append(f'<line x1="{x(put.step)}" x2="{x(put.step)}" y1="{_TOP - 14}" y2="{height - 26}" class="version"/>')
            parts.append(f'<text x="{x(put.step)}" y="{_TOP - 18}" text-anchor="middle" class="small">{put.version}</text>')
    for actor in result.plan.actors:
        y = lanes[actor.name]
        parts.append(f'<text x="10" y="{y + 15}">{actor.name}, process {actor.process}</text>')
        steps = [n for n, (_, name, _) in enumerate(trace) if name == actor.name]
        for begin, end, outcome in _spans(trace, steps, [o for o in result.outcomes if o.actor == actor.name]):
            parts += _bar(x(begin), x(end), y, outcome)
        parts += [f'<line x1="{x(n)}" x2="{x(n)}" y1="{y + 16}" y2="{y + 21}" class="call"/>' for n in steps if ": " in trace[n][2]]
        parts += _faults(trace, steps, y, x)
    for put in tried:
        if put.actor in lanes:
            parts.append(f'<circle cx="{x(put.step)}" cy="{lanes[put.actor] + 11}" r="5" class="{"put" if put.won else "lost"}"/>')
    parts += _legend(height - 8)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">\n<title>One simulated schedule</title><style>{_STYLE}</style>'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _spans(trace: Trace, steps: Sequence[int], outcomes: Sequence[Outcome]) -> Iterator[tuple[int, int, Outcome]]:
    """(first step, last step, outcome) of each action of an actor: an action ends with the line that names it."""
    left, begin = iter(outcomes), None
    outcome = next(left, None)
    for n in steps:
        begin = n if begin is None else begin
        if outcome is not None and trace[n][2].startswith(f"{outcome.name} {outcome.status}"):
            yield begin, n, outcome
            outcome, begin = next(left, None), None


def _bar(start: float, end: float, y: int, outcome: Outcome) -> Iterable[str]:
    action = outcome.action
    what = "; ".join(map(render, action.scripts)) or action.kind
    then = f" → {outcome.done.committed}" if outcome.done.committed is not None else "" if outcome.status == "nothing" else f": {outcome.status}"
    yield f'<rect x="{start}" y="{y}" width="{max(2.0, round(end - start, 1))}" height="22" rx="4" class="{_ENDS.get(outcome.status, "failed")}"/>'
    room = int((end - start - 6) / _LETTER)
    text = what if len(what) + len(then) <= room else what[: max(0, room - len(then) - 1)] + "…"
    if room >= len(then) + 4:
        yield f'<text x="{start + 3}" y="{y - 4}" class="small">{escape(text + then)}</text>'


def _faults(trace: Trace, steps: Sequence[int], y: int, x: Callable[[int], float]) -> Iterable[str]:
    free = 0.0
    for n in steps:
        if (kind := trace[n][2].rpartition(": ")[2]) in _FAULTS:
            yield f'<path d="M {x(n)} {y + 22} l 5 8 l -10 0 z" class="hit"/>'
            at = max(free, x(n) - len(kind) * _LETTER / 2)
            yield f'<text x="{round(at, 1)}" y="{y + 41}" class="fault">{kind}</text>'
            free = at + (len(kind) + 2) * _LETTER


def _legend(y: int) -> Iterable[str]:
    at = 10
    for mark, text in (
        ('<rect x="{x}" y="{y}" width="18" height="10" rx="3" class="won"/>', "committed"),
        ('<rect x="{x}" y="{y}" width="18" height="10" rx="3" class="idle"/>', "nothing to commit"),
        ('<rect x="{x}" y="{y}" width="18" height="10" rx="3" class="failed"/>', "failed"),
        ('<rect x="{x}" y="{y}" width="18" height="10" rx="3" class="crashed"/>', "its process was killed"),
        ('<circle cx="{c}" cy="{m}" r="5" class="put"/>', "made the version above"),
        ('<circle cx="{c}" cy="{m}" r="5" class="lost"/>', "lost the put, and is rebased"),
        ('<path d="M {c} {y} l 5 8 l -10 0 z" class="hit"/>', "a fault"),
        ('<path d="M {c} {m} v -6" class="call"/>', "a request to the store"),
    ):
        yield mark.format(x=at, y=y - 9, c=at + 9, m=y - 4)
        yield f'<text x="{at + 24}" y="{y}" class="small">{text}</text>'
        at += 36 + round(len(text) * _LETTER)
