"""Shows people what takes long: a line for each piece of work that has run for more than two seconds, in a terminal or a notebook.

    with progress.work("OPTIMIZE", "/lake/sales"):
        progress.step("rewriting files")
        progress.count(3, 40, "bins")

Nothing is shown where standard error is no terminal and no notebook runs the program, with ROWLOCK_PROGRESS=0, and in simulations; a piece of
work then costs a look at that, and a step nothing.  The display decides nothing, and its errors are suppressed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from rowlock import clock, extras, threads

AFTER_S = 2.0
"""A piece of work is shown once it has taken so long."""
VARIABLE = "ROWLOCK_PROGRESS"
_EVERY_S = 0.25
_GONE_WITHIN_S = 1.0
_WIDTH = 60
"""The most letters of a table's path that are shown: its end."""
_MOST = 8
"""The most lines that are shown at once."""


class Work:
    """A piece of work: what it is, the step that it is at, and how much of that is done.  Thread-safe."""

    def __init__(self, title: str) -> None:
        self._title, self._step, self._counted, self._done = title, "", "", 0
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.began_s = clock.monotonic_s()
        self.is_shown = False

    def step(self, text: str) -> None:
        """The work is at another step now; one that it comes back to is another round."""
        with self._lock:
            self._times[text] += 1
            self._step = f"{text}, round {self._times[text]}" if self._times[text] > 1 else text

    def count(self, done: int, total: int, unit: str) -> None:
        """So many of so many are done."""
        with self._lock:
            self._done, self._counted = done, f"{done:,} of {total:,} {unit}"

    def one_more(self, total: int, unit: str) -> None:
        """One more of so many is done; after the last one they begin anew."""
        with self._lock:
            self._done = self._done % total + 1
            self._counted = f"{self._done:,} of {total:,} {unit}"

    def line(self, now_s: float) -> str:
        """The work as one line of text."""
        what = f"{self._title}: {self._step}" if self._step else self._title
        return ", ".join(part for part in (what, self._counted, f"{now_s - self.began_s:.0f} s") if part)


class _Board:
    """The work of all threads of the process, and the thread that shows what takes long for as long as there is any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._works: list[Work] = []
        self._runs = False

    def enter(self, work: Work, screen: Callable[[], Screen]) -> None:
        with self._changed:
            self._works.append(work)
            if not self._runs:
                threads.start(lambda: self._run(screen), "rowlock-progress")
                self._runs = True

    def leave(self, work: Work) -> None:
        """Returns once the work is no longer shown, so that what its caller prints next stands alone."""
        with self._changed:
            self._works.remove(work)
            if work.is_shown:
                self._changed.notify_all()
                self._changed.wait_for(lambda: not work.is_shown, _GONE_WITHIN_S)

    def _run(self, make: Callable[[], Screen]) -> None:
        screen: Screen | None = None
        shown: list[Work] = []
        while True:
            with self._changed:
                long = [w for w in self._works if clock.monotonic_s() - w.began_s >= AFTER_S][:_MOST]
                if not self._works:
                    self._runs = False
                with contextlib.suppress(Exception):  # a terminal that is gone, a notebook whose kernel ends
                    if long or screen is not None:
                        screen = screen or make()
                        screen.show([w.line(clock.monotonic_s()) for w in long])
                        if not long:
                            screen.clear()
                            screen = None
                for work in {*shown, *long}:
                    work.is_shown = work in long
                shown = long
                self._changed.notify_all()
                if not self._runs:
                    return
                self._changed.wait(_EVERY_S)


class _Terminal:
    """Lines at the end of a terminal, on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()

    def show(self, lines: Sequence[str]) -> None:
        """Shows these lines in place of the ones before."""
        from rich.text import Text

        text = Text("\n".join("".join(c if c.isprintable() else "�" for c in line) for line in lines), style="dim", no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)

    def clear(self) -> None:
        """Leaves nothing of what was shown."""
        self._live.stop()


class _Notebook:
    """Lines below the cell of a notebook."""

    def __init__(self) -> None:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]  # a notebook has it

        self._shown: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, lines: Sequence[str]) -> None:
        from html import escape

        text = "\n".join(lines)
        self._shown.update({"text/plain": text, "text/html": f"<small>{escape(text).replace(chr(10), '<br>')}</small>"}, raw=True)

    def clear(self) -> None:
        self._shown.update({"text/plain": "", "text/html": ""}, raw=True)


Screen = _Terminal | _Notebook
_current: ContextVar[Work | None] = ContextVar("the piece of work that this thread is at", default=None)


@contextlib.contextmanager
def work(operation: str, table: str) -> Iterator[None]:
    """The block is a piece of work on a table; inside of another one it is a part of that."""
    screen = None if _current.get() is not None else _screen()
    if screen is None:
        yield
        return
    name = table if len(table) <= _WIDTH else f"…{table[1 - _WIDTH :]}"
    this, board = Work(f"{operation} {name}"), threads.of_process(_Board)
    token = _current.set(this)
    try:
        board.enter(this, screen)
        yield
    finally:
        _current.reset(token)
        with contextlib.suppress(ValueError):  # no thread could be started: the interpreter ends
            board.leave(this)


def current() -> Work | None:
    """The piece of work that this thread is at; None where nothing is shown."""
    return _current.get()


def step(text: str) -> None:
    """Sets which step this thread's piece of work is at now."""
    if (this := _current.get()) is not None:
        this.step(text)


def count(done: int, total: int, unit: str) -> None:
    """Sets how many of how many are done in this step."""
    if (this := _current.get()) is not None:
        this.count(done, total, unit)


def one_more(total: int, unit: str) -> None:
    """Counts one more of so many in this step."""
    if (this := _current.get()) is not None:
        this.one_more(total, unit)


def _screen() -> Callable[[], Screen] | None:
    """Where this process shows what takes long; None where nowhere."""
    if os.environ.get(VARIABLE) == "0" or threads.are_replaced():
        return None
    if "ipykernel" in sys.modules:
        return _Notebook
    try:
        return _Terminal if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and extras.is_installed("rich") else None
    except (AttributeError, ValueError):  # standard error is None, or closed
        return None
