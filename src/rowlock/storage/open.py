"""From a table's path or URI to its store.  Schemes that are not known are refused by name (I9).

obstore is loaded when the first table on a cloud is opened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import scheme_of
from rowlock.storage.address import SCHEMES, parse
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.options import Settings, settings_for
from rowlock.storage.store import ObjectStore

_memory: dict[str, MemoryStore] = {}
_lock = threading.Lock()


def open_store(path_or_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of the table at a place.

    A local path or `file:` URI; `s3://` (also `s3a://`), `gs://`, `az://` and `abfss://`, for which
    `storage_options` and the environment say how to get there (see rowlock.storage.options); and
    `memory://name`, one store for each name in this process.  Raises InvalidInput.
    """
    if isinstance(path_or_uri, Path):
        return LocalStore(path_or_uri)
    text = os.fspath(path_or_uri)
    if not text:
        raise InvalidInput("the table's path is empty")
    scheme = scheme_of(text)
    if scheme is None:
        return LocalStore(text)
    if scheme == "file":
        return LocalStore("/" + unquote(text[5:]).lstrip("/"))
    if scheme == "memory":
        with _lock:
            return _memory.setdefault(text, MemoryStore(text))
    if scheme in SCHEMES:
        from rowlock.storage.dynamodb import arbitrated
        from rowlock.storage.remote import RemoteStore

        address = parse(text)
        return arbitrated(RemoteStore(address, settings_for(address.kind, storage_options, table=address.root)), storage_options)
    raise InvalidInput(f"{scheme}: is not a kind of place that a table can be at; there are local paths, file:, s3:, gs:, az:, abfss: and memory:", table=text)


def open_beside(store: ObjectStore, folder: str) -> ObjectStore:
    """The store of another folder, which is reached as `store` is: files that a table names by their whole place."""
    settings = getattr(store, "settings", None)
    return open_store(folder, settings.given if isinstance(settings, Settings) else None)
