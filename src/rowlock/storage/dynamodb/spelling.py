"""How a table is spelled in the arbiter's entries.  Two spellings would be two arbiters, so this is exact.  Pure.

Delta writes what Hadoop's Path says of the table's folder: scheme, authority without user, decoded path,
single slashes, none at the end.  On S3 the scheme is what the Spark job was given, in most fleets s3a.
"""

from __future__ import annotations

import re

from rowlock.protocol.paths import SCHEME

_URI = re.compile(rf"^(?P<scheme>{SCHEME})://(?:[^/@]*@)?(?P<authority>[^/]*)(?P<path>.*)$", re.DOTALL)
S3_SCHEMES = ("s3a", "s3")
"""The schemes under which one S3 table may be known, most usual first."""


def spellings(root: str, scheme: str | None = None) -> tuple[str, ...]:
    """Every tablePath that the store with this root may have in the entries: with a `scheme` the one with it, else of S3 one for each scheme."""
    match = _URI.match(root)
    if match is None:
        return ("file:" + _path(root),)
    schemes = (scheme,) if scheme else S3_SCHEMES if match["scheme"].lower() in S3_SCHEMES else (match["scheme"],)
    return tuple(f"{scheme}://{match['authority']}{_path(match['path'])}" for scheme in schemes)


def _path(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part)
