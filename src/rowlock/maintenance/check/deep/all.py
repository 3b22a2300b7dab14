"""Everything that a deep check looks at beyond a plain one, in one pass over the log and one over the live files."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.deep.change_feeds import Feeds
from rowlock.maintenance.check.deep.contents import Contents, Tell, content_findings, read_contents
from rowlock.maintenance.check.deep.row_ids import row_ids
from rowlock.maintenance.check.deep.unnamed_files import NamedFiles
from rowlock.maintenance.check.deep.versions import Versions, walk
from rowlock.maintenance.check.finding import Finding
from rowlock.protocol.names import LogFile
from rowlock.storage.store import ObjectStore

__all__ = ["Tell", "deep_findings", "silent"]


def silent(what: str, done: int, total: int) -> None:
    """Hears of progress and says nothing."""


def deep_findings(store: ObjectStore, listed: Sequence[LogFile], head: Snapshot | None, tell: Tell = silent) -> tuple[list[Finding], dict[str, int]]:
    """The findings, and how many versions, feeds and files were looked at; without a newest version, `head`, no live files.  Raises StorageError where the store does not answer."""
    versions, feeds, named = Versions(), Feeds(), NamedFiles()
    total = len({f.version for f in listed if f.kind == "commit" or f.is_checkpoint})
    for n, step in enumerate(walk(store, listed, versions)):
        tell("versions", n, total)
        feeds.take(store, step)
        named.take(step)
    tell("versions", total, total)
    if head is None:
        return [*versions.findings(), *feeds.findings()], {"versions": versions.opened, "change feeds": feeds.compared}
    read: list[Contents] = list(read_contents(store, head, tell))
    findings = [*versions.findings(), *content_findings(read), *row_ids(head, read).findings(), *feeds.findings(), *named.findings(store, head)]
    return findings, {"versions": versions.opened, "change feeds": feeds.compared, "files read whole": sum(not c.unreadable for c in read)}
