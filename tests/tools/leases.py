"""What a lease costs that nobody else wants: milliseconds to take one and to give it back, by provider, beside real servers on this machine.

python tests/tools/leases.py [TIMES]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "src")]

from rowlock.locks.lease import TABLE, Leases  # noqa: E402
from rowlock.storage import LocalStore, MemoryStore, open_store  # noqa: E402
from rowlock.storage.registers import Registers, create_lock_table, open_registers  # noqa: E402
from servers import dynamodb, minio, postgres  # noqa: E402


def milliseconds(registers: Registers, times: int) -> list[float]:
    leases, out = Leases(registers), []
    for _ in range(times):
        start = time.perf_counter()
        lease = leases.acquire([TABLE], 10.0)
        assert lease is not None
        lease.release()
        out.append((time.perf_counter() - start) * 1000)
    return out


def main(times: int = 50) -> None:
    s3, dynamo, pg = minio.start(), dynamodb.start(), postgres.start()
    try:
        create_lock_table("dynamodb:leases", dynamo.storage_options)
        create_lock_table("postgresql", {"ROWLOCK_LOCK_DSN": pg.dsn})
        store = MemoryStore(f"memory://{uuid.uuid4()}")
        with tempfile.TemporaryDirectory() as folder:
            registers = {
                "object, local disk": open_registers(LocalStore(folder)),
                "object, MinIO": open_registers(open_store(s3.fresh_root(), s3.storage_options)),
                "DynamoDB Local": open_registers(store, "dynamodb:leases", dynamo.storage_options),
                "PostgreSQL": open_registers(store, "postgresql", {"ROWLOCK_LOCK_DSN": pg.dsn}),
            }
            print("| provider | median ms | largest ms |\n|---|---|---|")
            for name, cells in registers.items():
                milliseconds(cells, 5)
                found = milliseconds(cells, times)
                print(f"| {name} | {statistics.median(found):.0f} | {max(found):.0f} |")
    finally:
        for server in (s3, dynamo, pg):
            server.process.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
