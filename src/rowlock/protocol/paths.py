"""Paths of data files: between the log's URIs, real file names and what Spark reports. The only place that knows how.

A path in the log is a URI: decoded once it is the real name of the file, relative to the table's
root or absolute.  Everything in Rowlock but the bytes of the log holds decoded paths, so that two
spellings of one file are one key (I4).  A real name may itself hold `%`: the directory `a%3Ab` is
`a%253Ab` in the log.  Never decode twice.  delta-spark compares the log's own spellings: a remove that
spells its file otherwise than its add did doubles rows there, so another writer's spelling is kept.  Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import unquote

from rowlock.exceptions import InvalidInput

SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*"
"""Matches the scheme of a URI."""
_SCHEME = re.compile(rf"^{SCHEME}:/")
_PLACE = re.compile(rf"^({SCHEME}):")
ONE_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "azure": "az"}
"""Schemes that name the same places as another."""
PLAIN = r"^[A-Za-z0-9_\-!.~'()*@&=+$,;/]*$"
"""Matches paths that the log spells as they are."""
_PLAIN = re.compile(PLAIN)
ODD = r"^/|/\.{0,2}/|^\.{1,2}/"
"""Finds whole places, and steps that lead nowhere (`./`, `a/../`, `//`): paths that are spelled as they are, and in several ways."""
_ODD = re.compile(ODD)
_HOST = re.compile(rf"^{SCHEME}://[^/]*")
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*:@&=+$,;/")
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^")
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"


def decode(log_path: str, root: str | None = None) -> str:
    """The real file name of a path as the log spells it; of a whole place, which has several spellings, the usual one.

    What lies below `root` is relative to it, however the log says so.
    """
    if _is_plain(log_path):
        return log_path
    place = _without_steps(usual(unquote(log_path) if "%" in log_path else log_path))
    if root is None:
        return place
    if place.startswith("../"):
        place = _without_steps(usual(join(root, place)))
    return relative_to(root, place) if is_absolute(place) else place


def _is_plain(log_path: str) -> bool:
    """Whether a path is spelled as it is, and leads straight to a place below the root.  Asked of every path of a log: without a search of ODD, which costs more."""
    return _PLAIN.match(log_path) is not None and log_path[:1] not in ("/", ".") and "/." not in log_path and "//" not in log_path


def _without_steps(place: str) -> str:
    """A place without `.`, `..` and empty steps, as Spark reads it."""
    host = match.group() if (match := _HOST.match(place)) else ""
    path = place[len(host) :]
    if not _ODD.search(path) or not path:
        return place
    return host + ("/" if path.startswith("/") else "") + posixpath.normpath(path).lstrip("/")


def usual(place: str) -> str:
    """One spelling for a place that has several: no scheme on a disk, `s3` and `gs`; every other text stays as it is."""
    scheme = scheme_of(place)
    if scheme == "file":
        return strip_scheme(place) if _SCHEME.match(place) else place
    return ONE_SCHEME.get(scheme, scheme) + place[len(scheme) :] if scheme is not None and _SCHEME.match(place) else place


def encode(path: str) -> str:
    """How Rowlock spells a decoded path in the log: pure ASCII, as RFC 3986 has it.

    Characters that are illegal in a URI's path are escaped, `%` always.  Letters beyond ASCII are escaped
    too, which Java's URI does not do: delta-rs spells them so in its removes whatever the add said.
    """
    if _PLAIN.match(path):
        return path
    scheme = _SCHEME.match(path)
    head = scheme.group() if scheme else ""
    body = "".join(map(_encode_character, path[len(head) :]))
    if not scheme:  # a colon in the first segment of a relative path would read as a scheme
        first, slash, rest = body.partition("/")
        body = first.replace(":", "%3A") + slash + rest
    return head + body


def _encode_character(c: str) -> str:
    if c in _LEGAL:
        return c
    return "".join(f"%{b:02X}" for b in c.encode("utf-8", "surrogatepass"))


def read(log_path: str, root: str | None = None) -> tuple[str, str | None]:
    """(what `decode` gives, the log's path where another writer spells it otherwise than `encode` would)."""
    if _is_plain(log_path):
        return log_path, None
    path = decode(log_path, root)
    return path, None if encode(path) == log_path else log_path


def is_absolute(path: str) -> bool:
    """Whether a decoded path names a file by itself, outside of the table's root or inside it."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def scheme_of(place: str) -> str | None:
    """The scheme of a table's place, in small letters; None for a path on a disk, which one letter before a colon is too (a drive)."""
    match = _PLACE.match(place)
    return None if match is None or len(match[1]) == 1 else match[1].lower()


def location(root: str) -> str:
    """A local path or a URI as delta-spark tells it to people and to other programs: always with a scheme."""
    return root if "://" in root else f"file:{root}"


def strip_scheme(uri_or_path: str) -> str:
    """A local path out of `file:/a`, `file:///a` or `/a`; other schemes stay as they are."""
    if uri_or_path[:5].lower() == "file:":
        return "/" + uri_or_path[5:].lstrip("/")
    return uri_or_path


def join(root: str, path: str) -> str:
    """The full place of a decoded path of a table at `root` (a local path or a URI); a whole place on S3 gets the scheme of the root, else the one that Spark knows."""
    if not is_absolute(path):
        return f"{root.rstrip('/')}/{path}"
    place = usual(path)
    if not place.startswith("s3:"):
        return place
    scheme = _PLACE.match(root)
    return (scheme[1] if scheme is not None and usual(root).startswith("s3:") else "s3a") + place[2:]


def relative_to(root: str, full: str) -> str:
    """A decoded full path relative to the root where it lies below it, else as it is."""
    base, place = usual(root).rstrip("/") + "/", usual(full)
    return place[len(base) :] if place.startswith(base) else place


def from_spark_file_path(file_path: str, root: str) -> str:
    """The decoded path, relative to the table, of what Spark's `_metadata.file_path` says.

    Spark gives a URI of the whole place; its decoded form is the real name, as for the log's paths.
    `root` is the table's root, decoded.
    """
    return relative_to(root, decode(file_path))


def check_key(key: str) -> str:
    """A storage key: relative, with `/`, without `..`; raises InvalidInput for anything that could leave the table's folder."""
    if not key or key.startswith("/") or _SCHEME.match(key) or "\\" in key or "\0" in key or any(part in ("..", ".", "") for part in key.split("/")):
        raise InvalidInput(f"{key!r} is not a place inside of a table's folder")
    return key


def partition_directory(partition_values: Mapping[str, str | None]) -> str:
    """The folder, relative to the root, that files of these partition values are put in by custom (`a=1/b=x`); '' without any."""
    return "/".join(f"{_hive(name)}={NULL_DIRECTORY if not value else _hive(value)}" for name, value in partition_values.items())


def _hive(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED or ord(c) < 0x20 else c for c in text)
