"""What breaks between a writer and its store, as a handler of the proxy: seeded, and most of all around a commit's put.

A put may be applied and its reply lost, turned into an error or kept back until the client gives up; it may
never arrive; and it may be applied after the client has given up.  A listing may be some seconds old.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from urllib.parse import unquote

from servers.proxy import Forward, Request, Response

_COMMIT = re.compile(r"/_delta_log/\d{20}\.json(\?|$)")
_LISTED = re.compile(rb"<Contents>.*?<Key>(.*?)</Key>.*?</Contents>", re.DOTALL)

APPLIED = ("drop", "500", "503", "409", "412", "timeout", "slow")
"""After the server has done it.  412 is what a client sees whose own retry met its own first try."""
NOT_APPLIED = ("drop", "500", "503", "409")
LATE = "late"
"""The connection drops, and the put is applied a little later."""


class Faults:
    """A handler for `Proxy`.  `commits` and `others` are the shares of requests that go wrong."""

    def __init__(self, seed: int, *, commits: float = 0.5, others: float = 0.03, stale_s: float = 0.0, give_up_s: float = 1.0) -> None:
        self._random = random.Random(seed)
        self.commits, self.others, self.stale_s, self._give_up_s = commits, others, stale_s, give_up_s
        self.met: Counter[str] = Counter()
        self._put_at: dict[str, float] = {}
        self._late: set[asyncio.Task[Response]] = set()

    def _drawn(self, request: Request) -> tuple[bool, str] | None:
        """Whether the request is applied, and what goes wrong; None where nothing does."""
        is_commit = request.method == "PUT" and _COMMIT.search(request.target) is not None
        if self._random.random() >= (self.commits if is_commit else self.others):
            return None
        if not is_commit:
            return False, self._random.choice(NOT_APPLIED[:3])
        choice = self._random.choice([(True, how) for how in APPLIED] + [(False, how) for how in (*NOT_APPLIED, LATE)])
        self.met[f"{'applied' if choice[0] else 'not applied'}, {choice[1]}"] += 1
        return choice

    async def __call__(self, request: Request, forward: Forward) -> Response | None:
        if request.method == "GET" and "list-type=" in request.target:
            return self._aged(await forward(request))
        drawn = self._drawn(request)
        if drawn is None:
            return await self._applied(request, forward)
        applied, how = drawn
        if how == LATE:
            self._late.add(asyncio.get_running_loop().create_task(self._after(0.3, request, forward)))
            return None
        response = await self._applied(request, forward) if applied else None
        if how == "timeout":
            await asyncio.sleep(self._give_up_s * 1.5)
            return None
        if how == "slow":
            await asyncio.sleep(self._give_up_s / 4)
            return response
        return None if how == "drop" else Response(int(how), (("Content-Type", "application/xml"),), b"<Error><Code>Broken</Code></Error>")

    async def _applied(self, request: Request, forward: Forward) -> Response:
        response = await forward(request)
        if request.method == "PUT" and response.status == 200:
            self._put_at[unquote(request.target.partition("?")[0]).strip("/").partition("/")[2]] = time.monotonic()
        return response

    async def _after(self, seconds: float, request: Request, forward: Forward) -> Response:
        await asyncio.sleep(seconds)
        return await self._applied(request, forward)

    def _aged(self, response: Response) -> Response:
        """A listing without what was put in the last seconds."""
        since = time.monotonic() - self.stale_s

        def kept(match: re.Match[bytes]) -> bytes:
            return b"" if self._put_at.get(unquote(match[1].decode()), 0) > since else match[0]

        return Response(response.status, response.headers, _LISTED.sub(kept, response.body)) if self.stale_s else response
