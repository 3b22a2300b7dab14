"""What a simulated store has held, from the beginning: the judge reads this, whatever a cleanup has deleted since."""

from __future__ import annotations

from rowlock.protocol.commits import parse_commit
from rowlock.protocol.names import commit_key
from rowlock_simulation.arrow_files import table_ids
from rowlock_simulation.wire import is_commit

LOCKS, POSTED = "_rowlock/locks", "_rowlock/queue/"
"""The folders of leases and turns, and of what is posted for other processes."""


class History:
    """Every object that was ever written, and what happened to commit files."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.commits: dict[str, bytes] = {}
        self.violations: list[str] = []
        self.deleted_keys: set[str] = set()
        self.deletions: list[tuple[int, str]] = []
        """When each object was deleted, in virtual microseconds."""
        self.committed_us: dict[str, int] = {}
        """When each commit file was first there."""
        self.lost_from: str | None = None
        """The first commit file that was seen and went with the machine's power."""
        self.lost_us = -1
        """When that was last, in virtual microseconds."""
        self.looked_for_posts = 0
        """How often a writer has listed what others have posted."""
        self.leases: list[tuple[int, bytes]] = []
        self.turns: list[tuple[int, bytes]] = []
        """Every state of the leases and of the turns, and when it was written, in virtual microseconds."""
        self.table = 0
        """How many tables were dropped here before this one."""
        self.tables: dict[str, int] = {}
        """The same for each table that was made, by its id."""
        self.commits_before: set[bytes] = set()
        """The commits of the tables that were dropped."""
        self.overtaken = False
        """Whether a checkpoint, a commit, its claim or a deletion of the table before came into the log of this one, between the look of its writer and its request: no writer can prevent that."""
        self.revived_at: int | None = None
        """The first version in which a checkpoint, a definition or a commit of a table before came into the log of this one: after it readers and writers find that table."""

    def dropped(self) -> None:
        """Notes that the table is gone, all at once; what is written from now on is another's."""
        self.table += 1
        self.commits_before |= set(self.commits.values())
        self.deleted_keys |= self.objects.keys()
        self.commits, self.committed_us, self.deletions, self.lost_from = {}, {}, [], None
        self.revived_at = None
        self.leases, self.turns = [], []

    def written(self, key: str, data: bytes, now_us: int) -> None:
        """Notes a write; a commit file that is written over is a violation of I1."""
        self.objects[key] = data
        self.deleted_keys.discard(key)
        name = key.rpartition("/")[2]
        if key.startswith(f"{LOCKS}/leases"):
            self.leases.append((now_us, data))
        if key.startswith(f"{LOCKS}/turn"):
            self.turns.append((now_us, data))
        is_checkpoint = name[:20].isdigit() and ".checkpoint." in name
        if self.table and (is_commit(key) or is_checkpoint):
            follows = int(name[:20]) - is_commit(key)
            strange = follows >= 0 and commit_key(follows) not in self.commits
            if is_checkpoint:
                ids = table_ids(data) if name.endswith(".parquet") else [i for i in self.tables if i.encode() in data]
                strange |= not all(any(i.encode() in commit for commit in self.commits.values()) for i in ids)
            self.overtaken |= strange
            if strange and is_checkpoint:
                self._revived(follows)
        if is_commit(key):
            metadata = parse_commit(int(name[:20]), data, "simulated").metadata if b'"metaData"' in data else None
            if data in self.commits_before or (metadata is not None and self.tables.setdefault(metadata.id, self.table) < self.table):
                self._revived(int(name[:20]))
            if key in self.commits and self.commits[key] != data and not self.overtaken:  # else both may be of writers of the table before
                self.violations.append(f"I1: {key} was written twice, with other bytes")
            self.commits.setdefault(key, data)
            self.committed_us.setdefault(key, now_us)

    def _revived(self, version: int) -> None:
        self.revived_at = version if self.revived_at is None else min(version, self.revived_at)

    def lost(self, key: str, now_us: int) -> None:
        """Notes that an object went with the machine's power before it was durable.  What was acknowledged must not."""
        if is_commit(key):
            self.commits.pop(key, None)
            self.committed_us.pop(key, None)
            self.lost_from, self.lost_us = min(key, self.lost_from or key), now_us

    def is_gone(self, version: int, began_us: int) -> bool:
        """Whether a version that was read by an action which began then may have gone with the machine's power since."""
        return self.lost_from is not None and began_us <= self.lost_us and commit_key(version) >= self.lost_from

    def deleted(self, key: str, now_us: int) -> None:
        """Notes that an object was deleted."""
        self.deleted_keys.add(key)
        if (
            self.table
            and is_commit(key)
            and not any(".checkpoint." in k and k.rpartition("/")[2] > key.rpartition("/")[2][:20] for k in self.objects.keys() - self.deleted_keys)
        ):
            self.overtaken = True
        self.deletions.append((now_us, key))
