"""The verbs of a transaction: begin, execute statements, commit.

A transaction is private until its commit.  Whatever is raised before that leaves nothing but files
that no commit names (I10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock.boundary.engine import Statement
from rowlock.conflict.delta import Slice
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.transaction.definition import creation
from rowlock.transaction.failed_attempt import recorded
from rowlock.transaction.rebase.onto_head import check_source
from rowlock.transaction.rebase.propagate import stage, stage_appends
from rowlock.transaction.staged_statements import commit
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.pending import OpenTable, Pending
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.two_phase import close  # noqa: F401 - whoever opens a table can settle what is open in it

__all__ = ["Options", "Table", "Transaction"]


class Table(OpenTable):
    """A handle on a table.  Several may be open, in any number of threads and processes."""

    def create(self, schema_string: str, partition_columns: Sequence[str] = (), configuration: Mapping[str, str] | None = None, **more: Any) -> Receipt:
        """Creates the table (see `creation.create`).  Raises TableExists where there is one."""
        return creation.create(self.state, schema_string, partition_columns, configuration or {}, **more)

    def begin(
        self,
        options: Options | None = None,
        *,
        snapshot: Snapshot | None = None,
        metadata: Metadata | None = None,
        app: SetTransaction | None = None,
        reruns: Reruns | None = None,
    ) -> Transaction:
        """Begins a transaction that reads `snapshot`, by default the newest.  It may bring new metadata, and may be the
        step `app` of an application, which is committed once.  `reruns` accounts for earlier tries of the same work.

        Raises UnsupportedFeature where the table may not be written.
        """
        return Transaction(self, options or Options(), snapshot or self.refresh(), metadata, app, reruns)


class Transaction(Pending):
    """A transaction: statements that are staged against one version and committed together."""

    def execute(self, *statements: Statement) -> None:
        """Stages statements that belong together (an overwrite is a delete and an append), on top of what is staged.

        Where it raises, the transaction is as it was before.
        """
        if self.done:
            raise InvalidInput("The transaction is over; begin another", table=self.table.path)
        for statement in statements:
            for version in statement.source_versions:
                self.note_read(version)
        first, program = len(self.program), [*self.program, *statements]
        slices = [left for s in self._all_candidates([s for s in statements if s.touches]) if (left := self._untouched(s)) is not None]
        with self.watch.time("stage"):
            if self.table.only_appends and all(s.kind == "append" for s in program):
                effects, self.staged_rows = stage_appends(program, first, self.effects), {}
            else:
                engine = self.table.statement_engine
                effects, self.staged_rows, ways = stage(program, first, self.effects, slices, engine=engine, snapshot=self.base)
                self.ways += ways
            self.staged = replace(self.staged, effects=effects)
        self.program = program
        self.data_change = any(s.kind != "move" for s in program)
        self.files_read |= {s.path for s in slices}
        self.phase("staged")

    def note_read(self, version: int | None = None) -> None:
        """Records that the table was read as a whole, by the transaction or (at `version`) by rows it is about to write: what others
        change of it from now on is a conflict.  Raises one where the table at `version` holds other rows than at the base.
        """
        self.reads_table = True
        if version is not None and version != self.base.version and self.options.on_conflict != "lockless":
            with recorded(self, "WRITE" if not self.program else self.program[-1].kind.upper(), {}):
                check_source(self, version)

    def _untouched(self, piece: Slice) -> Slice | None:
        """The rows of a slice that no statement of the transaction has changed yet; changed rows are staged as new images."""
        ours = self.effects.tombstones.get(piece.path)
        if not ours:
            return piece
        dead = ours | piece.without if piece.without else ours
        return None if piece.file.num_records is not None and len(dead) >= piece.file.num_records else Slice(piece.file, without=dead)

    def _all_candidates(self, reading: Sequence[Statement]) -> list[Slice]:
        slices = {s.path: s for statement in reading for s in self.candidates(statement)}
        return [slices[p] for p in sorted(slices)]

    def commit(self, operation: str, parameters: Mapping[str, Any] | None = None) -> Receipt:
        """Commits, after a rebase for each time that others committed first.  See `staged_statements.commit`."""
        if self.done:
            raise InvalidInput("The transaction is committed already", table=self.table.path)
        receipt = commit(self, operation, parameters or {})
        self.close()
        return receipt
