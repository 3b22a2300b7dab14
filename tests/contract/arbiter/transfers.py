"""Transactions over several tables of the engine in memory; as a program, a process whose threads move money between tables until it is killed.

The program prints the txnId of each transaction that it was told is committed.
usage: transfers.py SEED THREADS PLACE..., with the settings of the tables' stores in the environment.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import traceback
from collections.abc import Sequence

from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.protocol.actions import SetTransaction
from rowlock.storage import open_store
from rowlock.transaction.multi_table import MultiTableReceipt, check_tables, commit, heads_together
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Transaction, run_again
from rowlock.transaction.two_phase.prepare import Part, Wait
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import operation, parameters, statements_of

Bank = Sequence[InMemory]


def opened(places: Sequence[str]) -> list[InMemory]:
    """The tables, with the settings of their stores from the environment."""
    return [InMemory(store=open_store(p)) for p in places]


def begin(bank: Bank, options: Options | None = None, app: SetTransaction | None = None) -> list[Transaction]:
    check_tables([b.state for b in bank])
    return [b.table.begin(options, snapshot=head, app=app) for b, head in zip(bank, heads_together([b.state for b in bank]), strict=True)]


def stage(txn: Transaction, text: str) -> None:
    if not txn.already_committed:
        txn.execute(*statements_of(parse(text), txn.base))


def end(txns: Sequence[Transaction], *texts: str, wait: Wait = "everywhere") -> MultiTableReceipt:
    """Commits the transactions, of which each is called by its statement."""
    named = [(operation(parse(t)), parameters(parse(t))) if t else ("READ", {}) for t in texts]
    txn_id = clock.new_id()
    for txn, text in zip(txns, texts, strict=True):
        if not text:
            txn.app = None
    return commit([Part(txn, *name, txn_id) for txn, name in zip(txns, named, strict=True)], wait)


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


def transfer_for_ever(bank: Bank, rng: random.Random) -> None:
    try:
        while True:
            print(transfer(bank, rng).txn_id + "\n", end="", flush=True)
    except BaseException:  # the process ends with any of its threads
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    tables = opened(sys.argv[3:])
    for n in range(int(sys.argv[2])):
        threading.Thread(target=transfer_for_ever, args=(tables, random.Random(f"{sys.argv[1]} {n}"))).start()
