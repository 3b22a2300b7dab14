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
from rowlock.protocol.paths import is_absolute, relative_to, scheme_of
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


def locate(store: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    """(store, key in it) of a file that a table at `store` names by its decoded path: below the table's root, or by its whole place, as shallow clones do.

    Another bucket is reached as the table's own is.  Raises InvalidInput, naming table, file and remedy, for a place that cannot be reached from here.
    """
    place = relative_to(store.root, path)
    if not is_absolute(place):
        return store, place
    folder, _, name = place.rpartition("/")
    settings = getattr(store, "settings", None)
    try:
        return open_store(folder or "/", settings.given if isinstance(settings, Settings) else None), name
    except InvalidInput as e:
        raise InvalidInput(
            f"the table names a file by its whole place, {place}, which cannot be reached from here: {e}. "
            "A shallow clone is read and written where its source is; copy the table with its files (a deep clone, or rowlock.write of its rows to a new place) to use it here",
            table=store.root,
        ) from e
