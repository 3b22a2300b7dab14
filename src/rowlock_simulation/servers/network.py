"""The way of a request to a simulated server and back, with all that may become of it there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeVar

from rowlock_simulation.plan import FaultKind
from rowlock_simulation.wire import Wire

T = TypeVar("T")
_TIMEOUT_S = 10.0
_ANSWERS_TRAVEL = 0.5
"""How often others run between what the server does and its answer; else the client goes on at once."""
_REFUSALS = {1: 403, 3: 400, 5: 401}
"""What some servers say that are not available, so that a client does not ask again: that it may not, or that it asks wrongly."""
_ONCE = ("put", "delete")
"""Requests that nobody has a reason to send again at once, where one was refused so."""
_ALWAYS: tuple[FaultKind, ...] = ("lost request", "lost reply", "unavailable", "error after")


class Network:
    """Sends the requests of one process.  `error_of` makes the client's error of a status, or of None where no answer came."""

    def __init__(self, wire: Wire, error_of: Callable[[int | None, str], Exception], within: str = "") -> None:
        """`within`: the prefix of keys in the trace, where there are several tables."""
        self._wire, self._s, self._error_of, self._within = wire, wire.scheduler, error_of, within
        self._refused_call: tuple[object, str, str] | None = None

    def send(self, what: str, key: str, do: Callable[[], T], possible: Sequence[FaultKind] = (), stale: Callable[[int], T] | None = None) -> T:
        """One request: its way there, what the server does, and the way back."""
        wire, s, key = self._wire, self._s, f"{self._within}{key}"
        if self._refused_call is not None and self._refused_call[0] is s.current:
            if self._refused_call[1:] == (what, key) and what in _ONCE:
                s.errors.append((what, AssertionError(f"{key} was refused, and is asked for again")))
            self._refused_call = None
        fault = wire.depart(what, key, (*_ALWAYS, *possible))
        kind = fault.kind if fault is not None else None
        if kind == "lost request" or wire.is_cut_off:
            self._unanswered(what, key)
        if kind == "late request":
            assert fault is not None
            s.at(fault.seconds, lambda: self._late(what, key, do))
            self._unanswered(what, key)
        if kind in ("unavailable", "conflict"):
            assert fault is not None
            status = _REFUSALS.get(fault.nth % 6, 503) if kind == "unavailable" else 409
            self._refused_call = (s.current, what, key) if status in _REFUSALS.values() else None
            self._refused(what, key, status)
        if kind == "stale list" and stale is not None and fault is not None:
            do = partial(stale, s.now_us - round(fault.seconds * 1e6))
        answer: T | Exception
        try:
            answer = do()
            if kind == "sent twice":  # by a proxy: the client gets the answer to the second one
                answer = do()
        except Exception as e:  # noqa: BLE001 - the server's answer
            answer = e.with_traceback(None)
        s.note(f"{what} {key}: {'done' if not isinstance(answer, Exception) else type(answer).__name__}")
        if kind == "crash after":
            wire.die()
        if kind == "error after":
            self._refused(what, key, 500)
        if kind == "lost reply" or wire.is_cut_off:
            self._unanswered(what, key)
        if s.random.random() < _ANSWERS_TRAVEL:
            wire.travel()
        if isinstance(answer, Exception):
            try:
                raise answer
            finally:
                del answer  # the error would hold this frame, and this frame the error
        return answer

    def _late(self, what: str, key: str, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as e:  # noqa: BLE001 - the client is gone
            self._s.note(f"late {what} {key}: {type(e).__name__}")
        else:
            self._s.note(f"late {what} {key}: done")

    def _unanswered(self, what: str, key: str) -> NoReturn:
        self._s.unanswered.add(self._s.current.name if self._s.current is not None else "-")
        self._s.pause(_TIMEOUT_S)
        raise self._error_of(None, f"{what} {key}")

    def _refused(self, what: str, key: str, status: int) -> NoReturn:
        self._wire.travel()
        raise self._error_of(status, f"{what} {key}")
