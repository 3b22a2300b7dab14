"""A process that moves money between tables until it is killed; prints the txnId of each transaction that it was told is committed.

usage: transfers.py SEED OPTIONS FOLDER..., with what boto3 needs as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import boto3

from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.storage import LocalStore
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable
from rowlock.transaction.multi_table import Part, commit, heads_together
from rowlock.transaction.run import run_again
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Transaction
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import operation, parameters, statements_of


def opened(folders: list[str], client: Any) -> list[InMemory]:
    return [InMemory(store=ArbitratedStore(LocalStore(f), EntryTable(client, "delta_log"))) for f in folders]


def transfer(bank: list[InMemory], rng: random.Random) -> str:
    """Moves an amount from one account to another, in another table; the id of the transaction."""
    source, target = rng.sample(range(len(bank)), 2)
    k, amount = rng.randint(1, 3), rng.randint(1, 9)
    texts = {source: f"UPDATE SET v = v - {amount} WHERE k = {k}", target: f"UPDATE SET v = v + {amount} WHERE k = {k}"}
    ids: list[str] = []

    def begin(_: Any) -> list[Transaction]:
        heads = heads_together([b.state for b in bank])
        return [b.table.begin(snapshot=head) for b, head in zip(bank, heads, strict=True)]

    def carry_out(txns: list[Transaction]) -> Receipt:
        parts, txn_id = [], clock.new_id()
        for n, txn in enumerate(txns):
            text = texts.get(n)
            if text is None:
                parts.append(Part(txn, "READ", {}, txn_id))
                continue
            txn.execute(*statements_of(parse(text), txn.base))
            parts.append(Part(txn, operation(parse(text)), parameters(parse(text)), txn_id))
        ids.append(txn_id)
        return next(iter(commit(parts).tables.values()))

    run_again(begin, carry_out, lambda txns: txns[0], most=200, again=lambda *_: True)
    return ids[-1]


if __name__ == "__main__":
    tables, draws = opened(sys.argv[3:], boto3.client("dynamodb", **json.loads(sys.argv[2]))), random.Random(int(sys.argv[1]))
    while True:
        print(transfer(tables, draws), flush=True)
