"""An HTTP proxy before a server, on an event loop in a thread of its own.  What it does with a request is up to `handle`.

It counts what passes.  Signatures of S3 stay right, for the Host header is passed on as it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name), None)

    def with_headers(self, **changed: str) -> Request:
        """Names with _ for -."""
        new = {k.replace("_", "-").lower(): v for k, v in changed.items()}
        return replace(self, headers=(*((k, v) for k, v in self.headers if k.lower() not in new), *new.items()))


@dataclass(frozen=True)
class Response:
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Forward = Callable[[Request], Awaitable[Response]]
Handle = Callable[[Request, Forward], Awaitable[Response | None]]
"""Answers a request, by `forward`ing it or by itself; None breaks the connection without an answer."""


async def pass_on(request: Request, forward: Forward) -> Response | None:
    return await forward(request)


def late(seconds: float) -> Handle:
    """Passes requests on and keeps every answer back: a request takes so long, or as long as the server takes."""

    async def handle(request: Request, forward: Forward) -> Response:
        response, _ = await asyncio.gather(forward(request), asyncio.sleep(seconds))
        return response

    return handle


class Proxy:
    """Runs until `stop()`, or until this process ends."""

    def __init__(self, upstream: str, handle: Handle = pass_on) -> None:
        host, _, port = upstream.removeprefix("http://").partition("/")[0].partition(":")
        self._upstream, self.handle = (host, int(port)), handle
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="proxy", daemon=True)
        self._thread.start()
        started.wait(10)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def counts(self) -> Counter[str]:
        """Requests so far, by method; a listing counts as LIST."""
        with self._lock:
            return self._counts.copy()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20))
        self._port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await _read_request(reader)) is not None:
                with self._lock:
                    self._counts["LIST" if request.method == "GET" and "list-type=" in request.target else request.method] += 1
                response = await self.handle(request, self._forward)
                if response is None:
                    break
                writer.write(
                    _bytes_of(f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Other')}", response.headers, response.body, request.method == "HEAD")
                )
                await writer.drain()
        writer.transport.abort()  # a break is a break: no orderly goodbye

    async def _forward(self, request: Request) -> Response:
        reader, writer = await asyncio.open_connection(*self._upstream, limit=1 << 20)
        try:
            writer.write(_bytes_of(f"{request.method} {request.target} HTTP/1.1", (*request.headers, ("Connection", "close")), request.body, False))
            await writer.drain()
            while True:
                status = int((await reader.readline()).split()[1])
                headers = await _read_headers(reader)
                if status >= 200:
                    break
            body = b"" if request.method == "HEAD" or status in (204, 304) else await _read_body(reader, headers, to_the_end=True)
            dropped = {"transfer-encoding", "connection"} | (set() if request.method == "HEAD" else {"content-length"})
            return Response(status, tuple((k, v) for k, v in headers if k.lower() not in dropped), body)
        finally:
            writer.close()


_REASONS = {
    200: "OK",
    204: "No Content",
    404: "Not Found",
    409: "Conflict",
    412: "Precondition Failed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _bytes_of(first: str, headers: tuple[tuple[str, str], ...], body: bytes, is_head: bool) -> bytes:
    kept = [(k, v) for k, v in headers if is_head or k.lower() not in ("content-length", "transfer-encoding", "expect")]
    if not is_head:
        kept.append(("Content-Length", str(len(body))))
    return "\r\n".join([first, *(f"{k}: {v}" for k, v in kept), "", ""]).encode("latin-1") + body


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split()
    headers = await _read_headers(reader)
    return Request(method, target, headers, await _read_body(reader, headers, to_the_end=False))


async def _read_headers(reader: asyncio.StreamReader) -> tuple[tuple[str, str], ...]:
    out = []
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        out.append((name, value.strip()))
    return tuple(out)


async def _read_body(reader: asyncio.StreamReader, headers: tuple[tuple[str, str], ...], *, to_the_end: bool) -> bytes:
    by_name = {k.lower(): v for k, v in headers}
    if "chunked" in by_name.get("transfer-encoding", ""):
        out = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            out += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return out
    if "content-length" in by_name:
        return await reader.readexactly(int(by_name["content-length"]))
    return await reader.read() if to_the_end else b""
