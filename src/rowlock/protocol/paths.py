"""Paths of data files: conversion between the log's URIs, real file names and the paths that Spark reports.

A path in the log is a URI; decoded once, it is the real name of the file, absolute or relative to the table's
root.  Everything in Rowlock except the bytes of the log uses decoded paths, so that two spellings of one file
are one key (I4).  A real name may itself contain `%`: the directory `a%3Ab` is `a%253Ab` in the log.  Never
decode twice.  delta-spark compares the log's own spellings: a remove that spells its file differently from the
add duplicates rows there, so the spelling of another writer is preserved.  Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

from rowlock.exceptions import InvalidInput

SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*"
"""Matches the scheme of a URI."""
_SCHEME = re.compile(rf"^{SCHEME}:/")
_SCHEME_NAME = re.compile(rf"^({SCHEME}):")
SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "azure": "az"}
"""Schemes that mean the same as another one, which is the canonical scheme."""
UNESCAPED = r"^[A-Za-z0-9_\-!.~'()*@&=+$,;/]*$"
"""Matches paths that need no escaping in the log."""
_UNESCAPED = re.compile(UNESCAPED)
_SEGMENT = r"[A-Za-z0-9_\-!~'()*@&=+$,;][A-Za-z0-9_\-!.~'()*@&=+$,;]*"
PLAIN = rf"^({_SEGMENT}(/{_SEGMENT})*/?)?$"
"""Matches paths of the log that are decoded, canonical and relative to the root as they are: no escapes, no segment that begins with a dot or is empty."""
_PLAIN = re.compile(PLAIN)
NOT_CANONICAL = r"^/|/\.{0,2}/|^\.{1,2}/"
"""Finds absolute paths and redundant segments (`./`, `a/../`, `//`) in unescaped paths: these can be spelled in several ways."""
_NOT_CANONICAL = re.compile(NOT_CANONICAL)
_HOST = re.compile(rf"^{SCHEME}://[^/]*")
_LEGAL = "_-!.~'()*:@&=+$,;/"
"""Beside letters and digits, the characters that stand in a URI's path as they are."""
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^")
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
NAME_BYTES = 255
"""How many bytes a disk lets the name of a folder have."""


def decode(log_path: str, root: str | None = None) -> str:
    """The decoded, canonical path of a path in the log.

    A path below `root` becomes relative to it, even if the log spells it as an absolute path.
    """
    if _PLAIN.match(log_path):  # each path of a log comes by here
        return log_path
    place = _without_redundant_segments(canonical(unquote(log_path) if "%" in log_path else log_path))
    if root is None:
        return place
    if place.startswith("../"):
        place = _without_redundant_segments(canonical(join(root, place)))
    return relative_to(root, place) if is_absolute(place) else place


def _without_redundant_segments(place: str) -> str:
    """The path or URI without `.`, `..` and empty segments, as Spark resolves it."""
    host = match.group() if (match := _HOST.match(place)) else ""
    path = place[len(host) :]
    if not _NOT_CANONICAL.search(path) or not path:
        return place
    return host + ("/" if path.startswith("/") else "") + posixpath.normpath(path).lstrip("/")


def canonical(place: str) -> str:
    """The path or URI with its canonical scheme: none for `file:`, `s3` for `s3a`, `gs` for `gcs` and so on.  Other text is unchanged."""
    scheme = scheme_of(place)
    if scheme == "file":
        return strip_scheme(place) if _SCHEME.match(place) else place
    return SCHEME_ALIASES.get(scheme, scheme) + place[len(scheme) :] if scheme is not None and _SCHEME.match(place) else place


def encode(path: str) -> str:
    """Rowlock's spelling of a decoded path in the log: pure ASCII, following RFC 3986.

    Characters that are illegal in a URI's path are escaped, `%` always.  Non-ASCII letters are escaped too, unlike
    in Java's URI: delta-rs spells them so in its removes, whatever the add has.
    """
    if _UNESCAPED.match(path):
        return path
    scheme = _SCHEME.match(path)
    head = scheme.group() if scheme else ""
    body = quote(path[len(head) :], safe=_LEGAL, errors="surrogatepass")
    if not scheme:  # a colon in the first segment of a relative path would look like a scheme
        first, slash, rest = body.partition("/")
        body = first.replace(":", "%3A") + slash + rest
    return head + body


def decode_with_spelling(log_path: str, root: str | None = None) -> tuple[str, str | None]:
    """(decoded path, the log's own spelling if it differs from that of `encode`, else None)."""
    if _PLAIN.match(log_path):
        return log_path, None
    path = decode(log_path, root)
    return path, None if encode(path) == log_path else log_path


def is_absolute(path: str) -> bool:
    """Whether a decoded path is an absolute local path or a URI, rather than relative to the table's root."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def scheme_of(place: str) -> str | None:
    """The scheme of a table's path or URI, in lower case; None for a local path (also after a one-letter drive name)."""
    match = _SCHEME_NAME.match(place)
    return None if match is None or len(match[1]) == 1 else match[1].lower()


def location(root: str) -> str:
    """The table's location as delta-spark reports it, always with a scheme: `file:/path` or the URI."""
    return root if "://" in root else f"file:{root}"


def strip_scheme(uri_or_path: str) -> str:
    """The local path of `file:/a`, `file:///a` or `/a`; URIs with other schemes are unchanged."""
    if uri_or_path[:5].lower() == "file:":
        return "/" + uri_or_path[5:].lstrip("/")
    return uri_or_path


def join(root: str, path: str) -> str:
    """The absolute path or URI of a decoded path in the table at `root`.

    An absolute path on S3 gets the scheme of `root` if that is on S3, else `s3a`, which Spark knows.
    """
    if not is_absolute(path):
        return f"{root.rstrip('/')}/{path}"
    place = canonical(path)
    if not place.startswith("s3:"):
        return place
    scheme = _SCHEME_NAME.match(root)
    return (scheme[1] if scheme is not None and canonical(root).startswith("s3:") else "s3a") + place[2:]


def relative_to(root: str, full: str) -> str:
    """A decoded absolute path, relative to the root if it is below it, else unchanged."""
    base, place = canonical(root).rstrip("/") + "/", canonical(full)
    return place[len(base) :] if place.startswith(base) else place


def is_hidden(path: str) -> bool:
    """Whether a folder or the file has a name that Hadoop hides; a partition's folder, whose name has an equals sign, is never hidden."""
    return path.rpartition("/")[2].startswith(".") or any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/"))


@lru_cache(maxsize=8192)
def check_key(key: str) -> str:
    """Returns `key` if it is a valid storage key (relative, with `/`, without `..`); raises InvalidInput for one that could leave the table's folder."""
    if not key or key.startswith("/") or _SCHEME.match(key) or "\\" in key or "\0" in key or any(part in ("..", ".", "") for part in key.split("/")):
        raise InvalidInput(f"{key!r} is not a path inside a table's folder")
    return key


def partition_directory(partition_values: Mapping[str, str | None]) -> str:
    """The Hive-style folder for files with these partition values (`a=1/b=x`), relative to the root; '' without partition values."""
    return "/".join(f"{_hive(name)}={NULL_DIRECTORY if not value else _hive(value)}" for name, value in partition_values.items())


def _hive(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED or ord(c) < 0x20 else c for c in text)


FORMATS = ("delta", "rowlock")
"""Format names, and the first parts of names such as delta.`/path`, that stand for a Delta table."""
_PATH_NAME = re.compile(r"\s*delta\s*\.\s*`([^`]*/[^`]*)`\s*\Z", re.IGNORECASE)


def path_in_name(name: str) -> str | None:
    """The path in a name such as delta.`/tables/sales`; None for a name in the catalog."""
    found = _PATH_NAME.match(name)
    return found[1] if found else None


def path_of(parts: Sequence[str]) -> str | None:
    """The path in a name such as delta.`/path`; None where it is a table in a schema that is named `delta`."""
    return parts[1] if len(parts) == 2 and parts[0].lower() in FORMATS and "/" in parts[1] else None


_VERSION_IN_PATH, _TIME_IN_PATH = re.compile(r"(.+)@[vV](\d+)\Z"), re.compile(r"(.+)@(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})\Z")


def moment_in(path: str) -> tuple[str, int | None, str | None] | None:
    """The table, the version and the time in a path that ends with one of them, such as `/lake/sales@v3`; None in another path."""
    if found := _VERSION_IN_PATH.match(path):
        return found[1], int(found[2]), None
    if found := _TIME_IN_PATH.match(path):
        return found[1], None, "{}-{}-{} {}:{}:{}.{}".format(*found.groups()[1:])
    return None


def partitions_in(path: str) -> tuple[str, dict[str, str | None]]:
    """(the folder above, the partitions' values by name) of a path that ends with folders such as `day=2026-01-01`."""
    above, values = path.rstrip("/"), dict[str, str | None]()
    while "=" in (name := above.rpartition("/")[2]):
        above, (column, _, value) = above.rpartition("/")[0], map(unquote, name.partition("="))
        values = {column: None if value == NULL_DIRECTORY else value, **values}
    return above, values


def place_in(options: Mapping[str, str], missing: str) -> str:
    """The path in the options of a reader or a writer.  Raises InvalidInput with the text `missing` where there is none."""
    place = next((value for name, value in options.items() if name.lower() == "path"), "")
    if not place:
        raise InvalidInput(missing)
    return strip_scheme(place)
