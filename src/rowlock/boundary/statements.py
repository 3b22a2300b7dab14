"""The statements of a transaction (its program), as far as the transaction layer must know them.

What a statement computes is known to the engine alone (`payload`: Spark plans, or functions over tuples);
what it reads and which rows it can change is stated here in plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rowlock.protocol.predicates import Predicate

StatementKind = Literal["update", "delete", "merge", "append", "move"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a transaction.

    kind             update, delete, merge; append (rows from outside); move (rows rewritten unchanged: compaction)
    payload          the engine's own form of the statement
    reads            a file-skipping predicate that keeps every file the statement may read or change; None: all files
    only             of a move: the paths to rewrite, in groups; each group becomes one output
    parameters       the statement in words, for operationParameters and messages
    source_versions  versions of this same table at which its source rows were read; empty where they came from elsewhere
    source_rows      how many rows the source of a MERGE has, as far as the engine says
    sets             columns that the statement assigns, as far as the engine says; of an append the columns that its rows have
    """

    kind: StatementKind
    payload: Any
    reads: Predicate | None = None
    only: tuple[tuple[str, ...], ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    source_versions: tuple[int, ...] = ()
    sets: tuple[str, ...] = ()
    source_rows: int | None = None

    @property
    def touches(self) -> bool:
        """Whether the statement can read or change existing rows: all kinds but append."""
        return self.kind != "append"


Program = Sequence[Statement]
