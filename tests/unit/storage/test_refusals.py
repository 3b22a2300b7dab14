"""Answers of a disk and of S3 that are no plain yes or no."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rowlock import clock
from rowlock.storage.local import LocalStore, SystemCalls
from rowlock.storage.open import open_store
from rowlock.storage.options import parse, settings_for
from rowlock.storage.remote import RemoteStore, error_of
from rowlock.storage.store import Committed, Lost, StorageError, Unknown


class NoLinks(SystemCalls):
    """A file system as that of a memory card, or of a bucket that is mounted."""

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def test_a_file_system_without_links_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no hard links.*another.*table") as e:
        LocalStore(tmp_path / "table", NoLinks()).put_if_absent("_delta_log/0.json", b"")
    assert e.value.table == str(tmp_path / "table") and not list((tmp_path / "table" / "_delta_log").iterdir())


class NoSyncOfFolders(SystemCalls):
    """A file system of network or user space that syncs files alone."""

    def fsync(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        super().fsync(descriptor)


def test_a_file_system_that_syncs_no_folders_has_tables(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "table", NoSyncOfFolders())
    assert store.put_if_absent("_delta_log/0.json", b"x") == Committed() and store.put_if_absent("_delta_log/0.json", b"y") == Lost()
    store.put("_delta_log/_last_checkpoint", b"")
    store.sync("_delta_log/0.json")
    assert store.get("_delta_log/0.json") == b"x"


@pytest.mark.parametrize(
    ("leads_to", "text"), [("nowhere", "is gone, or is a link that leads nowhere"), ("table", "a link in the table's path leads to itself")]
)
def test_a_link_that_leads_to_no_folder(tmp_path: Path, leads_to: str, text: str) -> None:
    (tmp_path / "table").symlink_to(tmp_path / leads_to)
    with pytest.raises(StorageError, match=text) as e:
        LocalStore(tmp_path / "table").put("_delta_log/0.json", b"")
    assert e.value.table == str(tmp_path / "table") and e.value.file == "_delta_log/0.json"


def test_a_request_that_cannot_be_sent_is_no_unknown_commit() -> None:
    """An endpoint without TLS, which the options do not allow."""
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "false", "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "mine"}
    store = open_store("s3://bucket/table", options)
    for call in (lambda: store.get("x"), lambda: store.put_if_absent("x", b"")):
        with pytest.raises(StorageError, match="needs the option AWS_ALLOW_HTTP=true"):
            call()
    allowed = open_store("s3://bucket/table", {**options, "AWS_ALLOW_HTTP": "true"}).put_if_absent("x", b"")
    assert isinstance(allowed, Unknown) and "check the endpoint" in allowed.reason


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (400, "ExpiredToken", "the session token has expired: give new keys"),
        (403, "RequestTimeTooSkewed", "the clock of this machine is wrong"),
        (403, "AccessDenied", "access was denied: check the credentials"),
    ],
)
def test_why_a_store_lets_nobody_in(status: int, code: str, remedy: str) -> None:
    class Refused:
        def get(self, key: str) -> Any:
            raise error_of(status, f"<Error><Code>{code}</Code></Error>")

    address = parse("s3://bucket/table")
    with pytest.raises(StorageError, match=remedy) as e:
        RemoteStore(address, settings_for("s3", {}, table=address.root), Refused()).get("x")  # type: ignore[arg-type]
    assert e.value.table == "s3://bucket/table" and e.value.file == "x"


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
