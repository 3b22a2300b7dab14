"""What a cloud store makes of replies: the only clear ones are Committed and Lost; everything else but a put may be sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rowlock import clock
from rowlock.storage import Committed, Lost, ObjectStore, StorageError, Unknown, open_store
from servers.minio import Minio, options
from servers.proxy import Forward, Proxy, Request, Response


class Script:
    """Answers the next requests as it is told; then they pass."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.tries = 0

    async def __call__(self, request: Request, forward: Forward) -> Response | None:
        self.tries += 1
        step = self.steps.pop(0) if self.steps else "pass"
        if step.startswith("applied "):
            await forward(request)
            step = step.removeprefix("applied ")
        if step == "hang":
            await asyncio.sleep(1.5)
        if step in ("drop", "hang"):
            return None
        return await forward(request) if step == "pass" else Response(int(step))


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def store(minio: Minio, script: Script) -> Iterator[ObjectStore]:
    proxy = Proxy(minio.endpoint, script)
    yield open_store(minio.fresh_root(), {**options(proxy.endpoint), "timeout": "1s"})
    proxy.stop()


class Quick(clock.SystemClock):
    def sleep(self, seconds: float) -> None:
        pass


@pytest.mark.parametrize("reply", ["drop", "hang", "500", "502", "503", "409", "408", "429"])
@pytest.mark.parametrize("applied", [False, True])
def test_an_unclear_put_is_unknown_and_is_sent_once(store: ObjectStore, script: Script, reply: str, applied: bool) -> None:
    script.steps = [f"applied {reply}" if applied else reply, "pass"]
    assert isinstance(store.put_if_absent("log/0", b"x"), Unknown) and script.tries == 1
    assert store.head("log/0") == (1 if applied else None)
    assert store.put_if_absent("log/0", b"x") == (Lost() if applied else Committed())


@pytest.mark.parametrize("reply", ["400", "403"])
def test_a_put_that_is_refused_is_a_failure(store: ObjectStore, script: Script, reply: str) -> None:
    script.steps = [reply]
    with pytest.raises(StorageError, match="could not be put"):
        store.put_if_absent("log/0", b"x")
    assert script.tries == 1


def test_a_412_is_lost_whoever_caused_it(store: ObjectStore, script: Script) -> None:
    """As where a client's own retry met its first try: the store cannot know, and the transaction reads the version back."""
    script.steps = ["applied 412"]
    assert store.put_if_absent("log/0", b"x") == Lost() and store.get("log/0") == b"x"


def test_an_unclear_replacement_is_unknown(store: ObjectStore, script: Script) -> None:
    store.put("cell", b"0")
    _, tag = store.get_tagged("cell")
    script.steps = ["applied 500"]
    assert isinstance(store.replace_if("cell", b"1", tag), Unknown)
    assert store.replace_if("cell", b"1", tag) == Lost() and store.get("cell") == b"1"


@pytest.mark.parametrize("reply", ["drop", "500", "503", "429", "408"])
def test_reading_and_writing_go_on_after_what_passes(store: ObjectStore, script: Script, reply: str) -> None:
    with clock.use(Quick()):
        for call, answer in (
            (lambda: store.put("a/b", b"12"), None),
            (lambda: store.get("a/b"), b"12"),
            (lambda: store.get_range("a/b", 1, 5), b"2"),
            (lambda: store.head("a/b"), 2),
            (lambda: [m.key for m in store.list("a")], ["a/b"]),
            (lambda: store.exists("a"), True),
            (lambda: store.delete("a/b"), None),
        ):
            script.steps, script.tries = [reply, reply], 0
            assert call() == answer
            assert script.tries >= 3


def test_what_does_not_pass_is_said(store: ObjectStore, script: Script) -> None:
    script.steps = ["503"] * 50
    with clock.use(Quick()), pytest.raises(StorageError, match=r"could not read .*503"):
        store.get("a")


def test_a_listing_of_several_pages(minio: Minio) -> None:
    store = open_store(minio.fresh_root(), minio.storage_options)
    keys = [f"_delta_log/{n:020}.json" for n in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), keys))
    assert [m.key for m in store.list("_delta_log")] == keys
    assert [m.key for m in store.list("_delta_log", start_after=keys[50])] == keys[51:]
