"""Each cell of the conflict matrix, played by two sessions in memory; and the page that shows it."""

from __future__ import annotations

import pytest

from model.matrix.cells import LEVELS, POLICIES, Cell, actions, cells, read
from model.schedules.in_memory import InMemory
from model.schedules.play import Play, schema_string
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.protocol.actions import SetTransaction
from rowlock.transaction.transaction import Transaction
from rowlock_simulation.memory.sql.script import Append
from rowlock_simulation.memory.statements import commit, statements_of
from rowlock_simulation.serial import bag
from tools import conflict_matrix

MATRIX = read()
CELLS = list(cells(MATRIX))
SERIAL = {(c.ours, c.winner, c.policy, c.granularity): c.outcome for c in CELLS if c.isolation == "serializable"}
BY_ROWS = {(c.ours, c.winner, c.policy, c.isolation): c.outcome for c in CELLS if c.granularity == "row"}
LONG = pytest.mark.soak("its outcome is that of `serializable`, or of the same policy by rows, which stay", ci=True)


def tells_more(cell: Cell) -> bool:
    """Whether the level is `serializable` and conflicts are judged by rows, or the level or the judgement by files makes another outcome of it."""
    if cell.granularity == "file" and cell.outcome == BY_ROWS[cell.ours, cell.winner, cell.policy, cell.isolation]:
        return False
    return cell.isolation == "serializable" or cell.outcome != SERIAL[cell.ours, cell.winner, cell.policy, cell.granularity]


class EitherOrder(Play):
    """`write_serializable`: T may stand before W."""

    def _compare(self) -> None:
        versions = range(1, max(self._done) + 1)
        orders = [versions, [*versions[:-2], versions[-1], versions[-2]]]
        assert any(bag(self._world.rows()) == bag(self.serial(order)) for order in orders)


class OneSnapshot(Play):
    """`snapshot`: T and W both changed the state that both read, each its own rows; or T came after W."""

    def _compare(self) -> None:
        *before, w, t = versions = list(range(1, max(self._done) + 1))
        read, winner, ours = (bag(self.serial(v)) for v in (before, [*before, w], [*before, t]))
        found = bag(self._world.rows())
        assert found in (bag(self.serial(versions)), winner - (read - ours) + (ours - read))


PLAYS = {"serializable": Play, "write_serializable": EitherOrder, "snapshot": OneSnapshot}


@pytest.mark.parametrize("cell", [pytest.param(c, id=c.name, marks=() if tells_more(c) else LONG) for c in CELLS])
def test_cell(cell: Cell) -> None:
    PLAYS[cell.isolation](cell.schedule(), InMemory()).run()


@pytest.mark.parametrize("policy", ["repair", "fail"])
@pytest.mark.parametrize("key", MATRIX["application"])
def test_step_of_an_application(key: str, policy: str) -> None:
    case, made, mine = MATRIX["application"][key], InMemory(), Append(((1, 1),))
    made.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"rowlock.onConflict": policy})

    def begin(app: str, version: int) -> Transaction:
        txn = made.table.begin(app=SetTransaction(app, version))
        txn.execute(*statements_of(mine, txn.base))
        return txn

    ours = begin("a", 2)
    commit(begin(case["app"], case["version"]), mine)
    try:
        receipt = commit(ours, mine)
        outcome = "skipped" if receipt.already_committed else "ok"
    except DeltaConcurrentModificationException as error:
        outcome = type(error).__name__.removesuffix("Exception")
        assert error.conflict.version == 1
    assert outcome == case[policy]
    assert len(made.rows()) == (2 if outcome == "ok" else 1)


def test_nothing_that_can_be_tested_is_left_out() -> None:
    """Every T and W that is not open has its cell, and nothing else has."""
    built = [[a.key for a in actions(MATRIX[side]) if not a.open] for side in ("ours", "winners")]
    assert {(o, w) for o, row in MATRIX["cells"].items() for w in row} == {(o, w) for o in built[0] for w in built[1]}
    opened = sum("open" in outcomes for row in MATRIX["cells"].values() for outcomes in row.values())
    assert len(CELLS) == (len(built[0]) * len(built[1]) - opened) * len(LEVELS) * len(POLICIES) > 900
    assert all(bool(a.open) != bool(a.statement) for side in ("ours", "winners") for a in actions(MATRIX[side]))


def test_page_is_up_to_date() -> None:
    assert conflict_matrix.PAGE.read_text() == conflict_matrix.page(MATRIX), "run `make matrix`"
