"""The spelling of a table's location (tablePath) in the arbiter's entries.  Two spellings would be two arbiters.  Pure.

Delta writes Hadoop's Path of the table's folder: scheme, authority without user, decoded path with single slashes
and no trailing one.  On S3 the scheme is the one that the Spark job uses, usually s3a.
"""

from __future__ import annotations

import re

from rowlock.protocol.paths import SCHEME

_URI = re.compile(rf"^(?P<scheme>{SCHEME})://(?:[^/@]*@)?(?P<authority>[^/]*)(?P<path>.*)$", re.DOTALL)
S3_SCHEMES = ("s3a", "s3")
"""The schemes that one S3 table may have in the entries, the most common first."""


def spellings(root: str, scheme: str | None = None) -> tuple[str, ...]:
    """The possible tablePaths of the table at `root`: the one with `scheme` if given, else on S3 one for each scheme."""
    match = _URI.match(root)
    if match is None:
        return ("file:" + _path(root),)
    schemes = (scheme,) if scheme else S3_SCHEMES if match["scheme"].lower() in S3_SCHEMES else (match["scheme"],)
    return tuple(f"{scheme}://{match['authority']}{_path(match['path'])}" for scheme in schemes)


def _path(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part)
