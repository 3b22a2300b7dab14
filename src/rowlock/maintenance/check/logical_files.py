"""Finds files that are live twice: two adds of one path with different deletion vectors.  Pure.

Readers identify a file by (path, vector).  A remove that names a stale vector, or none, removes nothing, and the add
in the same commit then adds the same rows once more (I4).  Only paths that were added within the given commits are found.
"""

from __future__ import annotations

from collections.abc import Iterable

from rowlock.maintenance.check.finding import Finding, spans
from rowlock.protocol.actions import Commit, FileKey

_MOST_PATHS = 500_000


class LogicalFiles:
    """Replays commits, oldest first, and keeps which of the files that they add are live."""

    def __init__(self) -> None:
        self._live: dict[str, dict[FileKey, int]] = {}

    def take(self, commit: Commit) -> None:
        """Applies the next commit."""
        for remove in commit.removes:
            if (of_path := self._live.get(remove.path)) is not None:
                of_path.pop(remove.key, None)
                if not of_path:
                    del self._live[remove.path]
        for add in commit.adds:
            if add.path in self._live or len(self._live) < _MOST_PATHS:
                self._live.setdefault(add.path, {})[add.key] = commit.version

    def findings(self) -> Iterable[Finding]:
        """At most one finding, which names all paths that are live with two deletion vectors."""
        twice = {path: max(keys.values()) for path, keys in self._live.items() if len(keys) > 1}
        if twice:
            files = sorted(twice)
            yield Finding(
                "damage",
                "file-lives-twice",
                f"files are live twice, with different deletion vectors, so that other readers return their rows twice ({spans(twice.values())} did not remove the earlier entry): {', '.join(files[:3])}"
                + (f" and {len(files) - 3:,} more" if len(files) > 3 else ""),
                "RESTORE the table to the version before, and look at what wrote that version",
                tuple(sorted(set(twice.values()))),
                tuple(files),
            )
