"""Object stores for tables: one contract, with put-if-absent as the only commit primitive."""

from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.open import open_store
from rowlock.storage.store import Committed, Lost, NotFound, ObjectMeta, ObjectStore, PutOutcome, StorageError, Unknown

__all__ = [
    "Committed", "LocalStore", "Lost", "MemoryStore", "NotFound", "ObjectMeta", "ObjectStore", "PutOutcome", "StorageError", "Unknown", "open_store",
]  # fmt: skip
