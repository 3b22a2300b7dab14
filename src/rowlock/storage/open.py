"""Opens the store of a table from its path or URI.  Unknown schemes are refused by name (I9).

obstore is imported when the first table on an object store is opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rowlock import arguments, threads
from rowlock.exceptions import CorruptLog, InvalidInput, StorageError, TableExists, WrongType
from rowlock.protocol.paths import canonical, decode, encode, is_absolute, relative_to, scheme_of
from rowlock.storage.hadoop import open_hadoop, s3_options
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.options import SCHEMES, Settings, parse, settings_for, shown
from rowlock.storage.store import ObjectStore

_memory: dict[str, MemoryStore] = {}
_lock = threads.module_lock()


def open_store(path_or_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of the table at a path or URI.

    Accepts a local path or `file:` URI; `s3://` (also `s3a://`), `gs://`, `az://` and `abfss://`, with credentials and
    endpoints from `storage_options`, the Spark session's Hadoop client and the environment (see rowlock.storage.options); `memory://name`, one
    store per name in this process; and `hdfs://` if a Spark session's Hadoop client is registered (rowlock.storage.hadoop).  Raises InvalidInput.
    """
    options = arguments.text_by_text(storage_options, "storage_options")
    text = _checked_path(path_or_uri)
    scheme = None if isinstance(path_or_uri, Path) else scheme_of(text)
    if scheme is None:
        return LocalStore(_checked_local(text))
    if scheme == "file":
        return LocalStore(_path_in_uri(text))
    if scheme == "memory":
        text = text.rstrip("/")
        with _lock:
            return _memory.setdefault(text, MemoryStore(text))
    if scheme in SCHEMES:
        from rowlock.storage.dynamodb import arbitrated
        from rowlock.storage.remote import RemoteStore

        address = parse(text)
        of_session = s3_options(address.bucket) if address.kind == "s3" else {}
        return arbitrated(RemoteStore(address, settings_for(address.kind, options, table=address.root, of_session=of_session)), options or None)
    return open_hadoop(shown(text.rstrip("/")))


def _checked_path(given: Any) -> str:
    """The text of a table's path or URI.  Raises WrongType, and InvalidInput for a text that no folder can have."""
    try:
        text = os.fspath(given)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise WrongType(f"a table's path is a string or a Path, not {type(given).__name__}")
    if not text:
        raise InvalidInput("the table's path is empty: give a folder, or a URL such as s3://bucket/folder")
    if "\0" in text:
        raise InvalidInput(f"the table's path {text!r} has a NUL character in it, which no file's name can have")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise InvalidInput(f"the table's path {text!r} is no UTF-8: Spark, Arrow and the log have no name for it. Rename the folder")
    return text


def _checked_local(path: str) -> str:
    """A local path.  Raises InvalidInput for one that begins with `~`, which only a shell expands."""
    if path.startswith("~"):
        raise InvalidInput(
            f"the table's path begins with {path.split('/', 1)[0]!r}, which only a shell replaces by a home folder: give os.path.expanduser({path!r}), "
            f"or './{path}' for a folder of that name",
            table=path,
        )
    return path


def _path_in_uri(uri: str) -> str:
    """The local path of a `file:` URI, decoded.  Raises InvalidInput for one that names no folder of this machine."""
    rest = uri[len("file:") :]
    host, path = (rest[2:].split("/", 1)[0], rest[2:].partition("/")[1] + rest[2:].partition("/")[2]) if rest.startswith("//") else ("", rest)
    if host.lower() not in ("", "localhost") or not path.strip("/") or not path.startswith("/"):
        raise InvalidInput("a file: URI names a folder of this machine by its whole path, such as file:///lake/sales", table=uri)
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput("the escapes in the table's file: URI are no UTF-8; a percent sign itself is written %25", table=uri) from None
    return "/" + _checked_path(decoded).lstrip("/")


def check_is_folder(store: ObjectStore) -> None:
    """Raises TableExists if a file is at the path of a new local table, or above it."""
    if not isinstance(store, LocalStore):
        return
    existing = next((p for p in (Path(store.root), *Path(store.root).parents) if os.path.exists(p)), None)  # noqa: PTH110 - Path.exists raises where access is denied
    if existing is not None and not existing.is_dir():
        raise TableExists(f"{existing} is a file, and a table is a folder of files: choose another path, or move the file away", table=store.root)


def missing_file(table: str, path: str, what: str = "A data file", version: int | None = None) -> CorruptLog:
    """The error for a missing file that a table's log names by a decoded path; its message begins with `what`."""
    place = relative_to(table, path)
    if is_absolute(place):
        text = (
            f"{what} is not there. It lies outside of this table's folder: this is a shallow clone, and the file's own table may have vacuumed it. "
            "Bring it back from a backup or an older object version, RESTORE the clone to a version without it, or make the clone anew"
        )
    else:
        text = f"{what} is not there; VACUUM may have deleted it: read a newer version, or bring the file back from a backup or an older object version"
    return CorruptLog(text, table=table, version=version, file=place)


def real_place(place: str) -> str:
    """A path or URI without `..` and with the canonical scheme; a local one also without symbolic links.  It need not exist."""
    decoded = decode(encode(canonical(place)))
    return os.path.realpath(decoded) if decoded.startswith("/") else decoded.rstrip("/")


def beside(store: ObjectStore, folder: str) -> ObjectStore:
    """The store of another folder (an absolute path or URI), with the settings of `store`.  Raises InvalidInput."""
    settings = getattr(store, "settings", None)
    return open_store(folder, settings.given if isinstance(settings, Settings) else None)


def is_table(store: ObjectStore, folder: str) -> bool:
    """Whether another folder (an absolute path or URI) has a Delta log; False if it may not be read.  It is opened with the settings of `store`."""
    with contextlib.suppress(StorageError, InvalidInput):
        return beside(store, folder).exists("_delta_log")
    return False


def locate(store: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    """(store, key in it) of a file that the table at `store` names by a decoded path: relative to its root, or absolute as in shallow clones.

    Another bucket is opened with the table's own settings.  Raises InvalidInput, naming table, file and remedy, for a
    location that cannot be opened.
    """
    relative = relative_to(store.root, path)
    if not is_absolute(relative):
        return store, relative
    folder, _, name = relative.rpartition("/")
    try:
        return beside(store, folder or "/"), name
    except InvalidInput as e:
        raise InvalidInput(
            f"the table names a file by its absolute path, {relative}, which cannot be opened: {e}. "
            "A shallow clone needs access to its source; to use the table here, copy it with its files (by a deep clone, or rowlock.write of its rows to a new table)",
            table=store.root,
        ) from e


def folds_names(store: ObjectStore) -> bool:
    """Whether a local table's disk takes names that differ in case for one, as those of macOS do; False where its path has no letter to find it out by."""
    if not isinstance(store, LocalStore):
        return False
    for place in (Path(store.root), *Path(store.root).parents):
        if (other := place.name.swapcase()) != place.name and place.exists():
            with contextlib.suppress(OSError):
                return place.samefile(place.with_name(other))
            return False
    return False
