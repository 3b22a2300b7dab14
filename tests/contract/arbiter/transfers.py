"""Transactions over several tables of the engine in memory; as a program, a process that moves money between tables until it is killed.

The program prints the txnId of each transaction that it was told is committed.
usage: transfers.py SEED CLIENT PLACE..., with what boto3 needs for the arbiter's table as JSON; null: the tables have no arbiter.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

import boto3

from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.protocol.actions import SetTransaction
from rowlock.storage import LocalStore, open_store
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable
from rowlock.transaction.multi_table import MultiTableReceipt, check_tables, commit, heads_together
from rowlock.transaction.run import run_again
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Transaction
from rowlock.transaction.two_phase.prepare import Part
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import operation, parameters, statements_of

Bank = Sequence[InMemory]


def opened(places: list[str], client: Any = None) -> list[InMemory]:
    """The tables, with the settings of their stores from the environment; with a client, folders under an arbiter."""
    if client is None:
        return [InMemory(store=open_store(p)) for p in places]
    return [InMemory(store=ArbitratedStore(LocalStore(p), EntryTable(client, "delta_log"))) for p in places]


def begin(bank: Bank, options: Options | None = None, app: SetTransaction | None = None) -> list[Transaction]:
    check_tables([b.state for b in bank])
    return [b.table.begin(options, snapshot=head, app=app) for b, head in zip(bank, heads_together([b.state for b in bank]), strict=True)]


def stage(txn: Transaction, text: str) -> None:
    if not txn.already_committed:
        txn.execute(*statements_of(parse(text), txn.base))


def end(txns: Sequence[Transaction], *texts: str) -> MultiTableReceipt:
    """Commits the transactions, of which each is called by its statement."""
    named = [(operation(parse(t)), parameters(parse(t))) if t else ("READ", {}) for t in texts]
    txn_id = clock.new_id()
    for txn, text in zip(txns, texts, strict=True):
        if not text:
            txn.app = None
    return commit([Part(txn, *name, txn_id) for txn, name in zip(txns, named, strict=True)])


def transfer(bank: Bank, rng: random.Random) -> MultiTableReceipt:
    """Moves an amount from one account to another, in another table; now and then depends on what a third holds."""
    source, target = rng.sample(range(len(bank)), 2)
    texts = ["" for _ in bank]
    k, amount = rng.randint(1, 3), rng.randint(1, 9)
    texts[source], texts[target] = f"UPDATE SET v = v - {amount} WHERE k = {k}", f"UPDATE SET v = v + {amount} WHERE k = {k}"
    receipts: list[MultiTableReceipt] = []

    def carry_out(txns: list[Transaction]) -> Receipt:
        for txn, text in zip(txns, texts, strict=True):
            if text:
                stage(txn, text)
            elif rng.random() < 0.5:
                txn.note_read()
        receipts.append(end(txns, *texts))
        return next(iter(receipts[-1].tables.values()))

    run_again(lambda _: begin(bank), carry_out, lambda txns: txns[0], most=200, again=lambda *_: True)
    return receipts[-1]


if __name__ == "__main__":
    reached = json.loads(sys.argv[2])
    tables, draws = opened(sys.argv[3:], reached and boto3.client("dynamodb", **reached)), random.Random(int(sys.argv[1]))
    while True:
        print(transfer(tables, draws).txn_id, flush=True)
