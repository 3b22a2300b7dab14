"""Lists the files in a table's folder that nothing in its log names: staged by writers at work, or left behind by ones that were killed."""

from __future__ import annotations

from collections.abc import Iterator

from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.deep.versions import Step
from rowlock.maintenance.check.finding import Finding
from rowlock.maintenance.vacuum import paths_of
from rowlock.protocol import names, paths
from rowlock.storage.store import ObjectStore


class NamedFiles:
    """Collects every path that the log names."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._begun = False

    def take(self, step: Step) -> None:
        """Adds the paths of the next version; of the first that can be built all of its live files."""
        if step.after is not None and (step.commit is None or not self._begun):
            self._named |= paths_of(step.after, step.after.files.adds())
            self._begun = True
        if step.commit is not None and (at := step.after or step.before) is not None:
            self._named |= paths_of(at, [*step.commit.adds, *step.commit.removes])
            self._named |= {paths.decode(c.raw["path"], at.table) for c in step.commit.cdc if isinstance(c.raw.get("path"), str)}

    def findings(self, store: ObjectStore, head: Snapshot) -> Iterator[Finding]:
        """One note about all files that are not named, where there are any."""
        own = (f"{names.LOG_DIRECTORY}/", f"{names.ROWLOCK_DIRECTORY}/")
        listed = [m for m in store.list(recursive=True) if not m.key.startswith(own)]
        nested = tuple({m.key.split("/_delta_log/", 1)[0] + "/" for m in listed if "/_delta_log/" in m.key})
        unnamed = [m for m in listed if m.key not in self._named and not m.key.startswith(nested) and m.key.endswith((".parquet", ".bin"))]
        if unnamed:
            yield Finding(
                "note",
                "files-not-in-log",
                f"{len(unnamed):,} files of {sum(m.size_bytes for m in unnamed):,} bytes are named nowhere in the log of {head.table}: staged by a writer at work, "
                "or left by one that was killed or by versions that the log no longer holds",
                "VACUUM deletes those that are older than the retention",
                files=tuple(m.key for m in unnamed),
            )
