"""Answers of a disk and of S3 that are no plain yes or no."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from rowlock import clock
from rowlock.storage.local import LocalStore, SystemCalls
from rowlock.storage.options import parse, settings_for
from rowlock.storage.remote import RemoteStore, error_of
from rowlock.storage.store import StorageError, Unknown


class NoLinks(SystemCalls):
    """A file system as that of a memory card, or of a bucket that is mounted."""

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def test_a_file_system_without_links_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no hard links.*another.*table") as e:
        LocalStore(tmp_path / "table", NoLinks()).put_if_absent("_delta_log/0.json", b"")
    assert e.value.table == str(tmp_path / "table") and not list((tmp_path / "table" / "_delta_log").iterdir())


class Slow:
    """The requests of a bucket that does not get the whole of a request in time, twice."""

    def __init__(self) -> None:
        self.asked = 0

    def get(self, key: str) -> tuple[bytes, Any]:
        return self._late() or (b"there", {"e_tag": None, "version": "1"})

    def put_if(self, key: str, data: bytes, mode: Any) -> Any:
        self._late()

    def _late(self) -> None:
        self.asked += 1
        if self.asked < 3:
            raise error_of(400, "Bad Request: <Error><Code>RequestTimeout</Code></Error>")


def test_s3_says_by_400_that_a_request_came_too_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "back_off", lambda *_: None)
    address, requests = parse("s3://bucket/table"), Slow()
    store = RemoteStore(address, settings_for("s3", {}, table=address.root), requests)  # type: ignore[arg-type]
    assert store.get("x") == b"there" and requests.asked == 3
    requests.asked = 0
    assert isinstance(store.put_if_absent("x", b""), Unknown) and requests.asked == 1
