"""A server for a script, which has no fixtures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from servers.process import Process
from servers.programs import Missing


class Server(Protocol):
    @property
    def process(self) -> Process: ...


S = TypeVar("S", bound=Server)


@contextmanager
def running(start: Callable[[], S]) -> Iterator[S]:
    """Runs until the block ends.  Where its program is not on this machine the script says how to get it and ends with status 2."""
    try:
        server = start()
    except Missing as e:
        print(e, file=sys.stderr)
        sys.exit(2)
    try:
        yield server
    finally:
        server.process.stop()
