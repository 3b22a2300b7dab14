"""From a table's path or URI to its store. Schemes that this version lacks are refused by name (I9)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from rowlock.exceptions import InvalidInput
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import ObjectStore

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+):")
_memory: dict[str, MemoryStore] = {}
_lock = threading.Lock()


def open_store(path_or_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of the table at a local path, a `file:` URI, or `memory://name` (one store for each name in this process)."""
    if isinstance(path_or_uri, Path):
        return LocalStore(path_or_uri)
    text = os.fspath(path_or_uri)
    if not text:
        raise InvalidInput("the table's path is empty")
    match = _SCHEME.match(text)
    if match is None:
        return LocalStore(text)
    scheme = match[1].lower()
    if scheme == "file":
        return LocalStore("/" + unquote(text[5:]).lstrip("/"))
    if scheme == "memory":
        with _lock:
            return _memory.setdefault(text, MemoryStore(text))
    raise InvalidInput(f"this version handles local paths; {scheme}: is not supported", table=text)
