"""What a simulated store has held, from the beginning: the judge reads this, whatever a cleanup has deleted since."""

from __future__ import annotations

from rowlock_simulation.wire import is_commit


class History:
    """Every object that was ever written, and what happened to commit files."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.commits: dict[str, bytes] = {}
        self.violations: list[str] = []
        self.deleted_keys: set[str] = set()
        self.lost_from: str | None = None
        """The first commit file that was seen and went with the machine's power."""

    def written(self, key: str, data: bytes, now_us: int) -> None:
        """Notes a write; a commit file that is written over is a violation of I1."""
        self.objects[key] = data
        self.deleted_keys.discard(key)
        if is_commit(key):
            if key in self.commits and self.commits[key] != data:
                self.violations.append(f"I1: {key} was written twice, with other bytes")
            self.commits.setdefault(key, data)

    def lost(self, key: str) -> None:
        """Notes that an object went with the machine's power before it was durable.  What was acknowledged must not."""
        if is_commit(key):
            self.commits.pop(key, None)
            self.lost_from = min(key, self.lost_from or key)

    def deleted(self, key: str, now_us: int) -> None:
        """Notes that an object was deleted."""
        self.deleted_keys.add(key)
