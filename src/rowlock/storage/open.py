"""Opens the store of a table from its path or URI.  Unknown schemes are refused by name (I9).

obstore is imported when the first table on an object store is opened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from rowlock.exceptions import InvalidInput, WrongType
from rowlock.protocol.paths import is_absolute, relative_to, scheme_of
from rowlock.storage.address import SCHEMES, parse
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.options import Settings, settings_for
from rowlock.storage.store import ObjectStore

_memory: dict[str, MemoryStore] = {}
_lock = threading.Lock()


def open_store(path_or_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of the table at a path or URI.

    Accepts a local path or `file:` URI; `s3://` (also `s3a://`), `gs://`, `az://` and `abfss://`, with credentials
    and endpoints from `storage_options` and the environment (see rowlock.storage.options); and `memory://name`, one
    store per name in this process.  Raises InvalidInput.
    """
    if isinstance(path_or_uri, Path):
        return LocalStore(path_or_uri)
    try:
        text = os.fspath(path_or_uri)
    except TypeError:
        raise WrongType(f"a table's path is a string or a Path, not {type(path_or_uri).__name__}") from None
    if not text:
        raise InvalidInput("the table's path is empty: give a folder, or a URL such as s3://bucket/folder")
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
    raise InvalidInput(f"the scheme {scheme}: is not supported; use a local path, file:, s3:, gs:, az:, abfss: or memory:", table=text)


def locate(store: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    """(store, key in it) of a file that the table at `store` names by a decoded path: relative to its root, or absolute as in shallow clones.

    Another bucket is opened with the table's own settings.  Raises InvalidInput, naming table, file and remedy, for a
    location that cannot be opened.
    """
    relative = relative_to(store.root, path)
    if not is_absolute(relative):
        return store, relative
    folder, _, name = relative.rpartition("/")
    settings = getattr(store, "settings", None)
    try:
        return open_store(folder or "/", settings.given if isinstance(settings, Settings) else None), name
    except InvalidInput as e:
        raise InvalidInput(
            f"the table names a file by its absolute path, {relative}, which cannot be opened: {e}. "
            "A shallow clone needs access to its source; to use the table here, copy it with its files (by a deep clone, or rowlock.write of its rows to a new table)",
            table=store.root,
        ) from e
