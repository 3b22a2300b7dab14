"""The statements of a transaction's program, as far as the transaction layer must know them.

What a statement computes is the engine's affair (`payload`: Spark plans, or functions over tuples);
what it reads and how it composes is said here, in plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rowlock.protocol.skipping import Predicate

StatementKind = Literal["update", "delete", "merge", "append", "move"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    kind      update, delete, merge; append (rows from outside); move (rows rewritten unchanged: compaction)
    reads     a predicate for skipping that keeps every file the statement may touch or read; None: all files
    payload   the engine's
    touches   False where the statement can neither read nor change existing rows (append)
    only      for move: the paths whose rows are moved, in groups (one group is one output)
    sets      columns that the statement assigns, as far as the engine says; of an append those that its rows came with
    parameters  the statement in words, for operationParameters and messages
    source_versions  where its rows from outside were read from this very table: the versions that they were read at
    """

    kind: StatementKind
    payload: Any
    reads: Predicate | None = None
    only: tuple[tuple[str, ...], ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    source_versions: tuple[int, ...] = ()
    sets: tuple[str, ...] = ()

    @property
    def touches(self) -> bool:
        return self.kind != "append"


Program = Sequence[Statement]
