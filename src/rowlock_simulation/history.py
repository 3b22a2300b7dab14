"""What a simulated store has held, from the beginning: the judge reads this, whatever a cleanup has deleted since."""

from __future__ import annotations

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
        self.overtaken = False
        """Whether a checkpoint, a commit, its claim or a deletion of the table before came into the log of this one, between the look of its writer and its request: no writer can prevent that."""

    def dropped(self) -> None:
        """Notes that the table is gone, all at once; what is written from now on is another's."""
        self.table += 1
        self.deleted_keys |= self.objects.keys()
        self.commits, self.committed_us, self.deletions, self.lost_from = {}, {}, [], None
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
        follows = name[:20].isdigit() and (is_commit(key) or ".checkpoint." in name) and int(name[:20]) - is_commit(key)
        if self.table and follows is not False and follows >= 0 and commit_key(follows) not in self.commits:
            self.overtaken = True
        if self.table and ".checkpoint." in name and name.endswith(".parquet"):
            self.overtaken |= not all(any(i.encode() in commit for commit in self.commits.values()) for i in table_ids(data))
        if is_commit(key):
            if key in self.commits and self.commits[key] != data and not self.overtaken:  # else both may be of writers of the table before
                self.violations.append(f"I1: {key} was written twice, with other bytes")
            self.commits.setdefault(key, data)
            self.committed_us.setdefault(key, now_us)

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
