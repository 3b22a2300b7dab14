"""What a store must do: keys and bytes below one table's root, and one commit primitive.

`put_if_absent` is the only thing that decides who commits (I1); its outcome is a value, and when it
cannot be known that is said (I2).  Keys are relative to the root, with `/`, and never leave it.
`rowlock.storage` has the stores; every store passes the same contract tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Committed:
    """The bytes are there, they are ours, and they are durable.  `tag` is that of the object (see `ObjectStore.tag`), where the store says it."""

    tag: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """Something was there already, and it was left as it is."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The bytes may be there, may come yet, or may not: read the log back before doing anything else."""

    reason: str


PutOutcome: TypeAlias = Committed | Lost | Unknown


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One object of a listing."""

    key: str
    size_bytes: int
    modified_ms: int


def tag_of(data: bytes) -> str:
    """The tag of a store that keeps none: a digest of what it holds.  Cells that come back to an old state must say so in their bytes (an epoch)."""
    return hashlib.sha256(data).hexdigest()


class StorageError(Exception):
    """A store failed; for reads it may be tried again."""


class NotFound(StorageError, KeyError):
    """There is no object under the key."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)

    def __str__(self) -> str:
        return f"there is nothing at {self.key}"


class ObjectStore(Protocol):
    """One table's folder. All methods are safe to call from any thread and run on the driver."""

    @property
    def root(self) -> str:
        """The table's place: an absolute local path, or a URI."""
        ...

    @property
    def identity(self) -> str:
        """Tells two stores in one process apart where their root does not, by endpoint or credentials; holds no secret."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether each call is a request over a network: what need not be asked is not asked then."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """Makes the object, whole, unless there is one: of many callers exactly one gets Committed."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Writes the object whole, replacing what is there; durable when this returns."""
        ...

    def get(self, key: str) -> bytes:
        """The object's bytes; raises NotFound."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes of the object from byte `start` on, fewer at its end; raises NotFound."""
        ...

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """The object's bytes and the tag of just this state of it; raises NotFound."""
        ...

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        """Replaces the object if it is still in the state of `tag`: of many callers with one tag exactly one gets Committed.

        Lost where it has changed or is gone.  For leases and the like, never for the log.
        """
        ...

    def head(self, key: str) -> int | None:
        """The object's size in bytes; None where there is none."""
        ...

    def tag(self, key: str) -> str | None:
        """The tag of the state that the object is in, as `get_tagged` and `Committed` give it; None where there is none."""
        ...

    def modified_ms(self, key: str) -> int | None:
        """When the object was last put, by the store's own clock, in milliseconds (some stores: in whole seconds, cut); None where there is none."""
        ...

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False) -> Iterator[ObjectMeta]:
        """The objects in the folder `prefix` (without a slash at its end; '' is the root), in order of their keys.

        Only keys that sort after `start_after`; with `recursive` those in folders below too. An absent folder is empty.
        """
        ...

    def delete(self, key: str) -> None:
        """Deletes the object; nothing happens where there is none."""
        ...

    def exists(self, key: str = "") -> bool:
        """Whether there is an object or a folder under the key; by default the table's folder itself."""
        ...
