"""Many writers of small appends on an S3 server that answers after 60 ms: commits a second, with group commit, without, and deltalake's, in one run.

usage: slow_store.py [--writers 64] [--processes 1 8] [--seconds 15] [--latency-ms 60] [--engines ...]

The server is MinIO behind a proxy in a process of its own, which keeps every answer back.  Each append brings 10 rows.
`processes`: over how many processes the writers are spread, as threads.  Each line starts with a table of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "src")]
ROWS = 10


def serve(upstream: str, latency_s: float) -> None:
    from servers.proxy import Proxy, late

    print(Proxy(upstream, late(latency_s)).endpoint, flush=True)
    sys.stdin.read()


def write(engine: str, root: str, endpoint: str, first: int, writers: int, seconds: float) -> None:
    """One process: prints what its threads were told."""
    import pyarrow as pa

    from servers.minio import options

    storage = options(endpoint)

    def rows(writer: int, n: int) -> pa.Table:
        return pa.table({"writer": pa.array([writer] * ROWS, pa.int64()), "n": pa.array([n] * ROWS, pa.int64())})

    if engine == "deltalake":
        from deltalake import CommitProperties, write_deltalake

        def append(writer: int, n: int) -> tuple[int, int]:
            write_deltalake(root, rows(writer, n), mode="append", storage_options=storage, commit_properties=CommitProperties(max_commit_retries=200))
            return 0, 1
    else:
        import rowlock

        def append(writer: int, n: int) -> tuple[int, int]:
            receipt = rowlock.append(root, rows(writer, n), storage_options=storage)
            return receipt.attempts, receipt.group_size

        rowlock.to_arrow(root, columns=["n"], storage_options=storage)
    print("ready", flush=True)
    sys.stdin.readline()
    told: list[list[float]] = []
    failed = [0]
    end = time.perf_counter() + seconds

    def go(writer: int) -> None:
        n = 0
        while (begun := time.perf_counter()) < end:
            try:
                attempts, size = append(writer, n)
                told.append([writer, n, time.perf_counter() - begun, attempts, size])
            except Exception as e:
                failed[0] += 1
                print(type(e).__name__, str(e)[:200], file=sys.stderr)
            n += 1

    threads = [threading.Thread(target=go, args=(first + i,)) for i in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"told": told, "failed": failed[0]}), flush=True)


def measure(engine: str, endpoint: str, direct: str, writers: int, processes: int, seconds: float) -> str:
    import pyarrow as pa

    import rowlock
    from servers.minio import BUCKET, options

    root = f"s3://{BUCKET}/{engine}-{processes}-{time.time_ns()}"
    empty = pa.table({"writer": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})
    properties = {"rowlock.groupCommit": "false"} if engine == "one by one" else {}
    if engine == "deltalake":
        from deltalake import write_deltalake

        write_deltalake(root, empty, storage_options=options(direct))
    else:
        rowlock.append(root, empty, storage_options=options(direct), properties={**properties, "delta.enableDeletionVectors": "false"})
    each = writers // processes
    command = [sys.executable, str(HERE), "--write", engine, root, endpoint]
    running = [
        subprocess.Popen([*command, str(p * each), str(each), str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for p in range(processes)
    ]
    for one in running:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    begun = time.perf_counter()
    for one in running:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [json.loads(one.communicate()[0]) for one in running]
    took = time.perf_counter() - begun
    told = [line for s in said for line in s["told"]]
    there = sorted(set(zip(*(c.to_pylist() for c in rowlock.to_arrow(root, storage_options=options(direct)).select(["writer", "n"]).columns), strict=True)))
    exact = rowlock.to_arrow(root, storage_options=options(direct)).num_rows == ROWS * len(there) and set(there) >= {(int(w), int(n)) for w, n, *_ in told}
    times = sorted(line[2] for line in told) or [0.0]
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))]  # noqa: E731
    rounds = f"{max((int(t[3]) for t in told), default=0):7d}" if engine != "deltalake" else "      -"
    size = sum(t[4] for t in told) / max(1, len(told))
    versions = rowlock.storage.open_store(root, options(direct))  # type: ignore[attr-defined]
    from rowlock.log.table_log import TableLog

    return f"{engine:12} {processes:9d} {len(told) / took:10.1f} {at(0.5):8.2f} s {at(0.99):8.2f} s {times[-1]:8.2f} s {rounds} {size:6.1f} {TableLog(versions).latest().version:9d} {sum(s['failed'] for s in said):7d} {'yes' if exact else 'NO':>6}"


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], float(sys.argv[3]))
        return 0
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]), float(sys.argv[7]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--latency-ms", type=float, default=60)
    parser.add_argument("--engines", nargs="+", default=["group", "one by one", "deltalake"])
    args = parser.parse_args()
    from servers import minio
    from servers.scripts import running

    with running(minio.start) as server:
        return compare(server.endpoint, args)


def compare(direct: str, args: argparse.Namespace) -> int:
    """Prints a line for each engine and number of processes; `direct` leads to the server past the proxy."""
    proxy = subprocess.Popen(
        [sys.executable, str(HERE), "--serve", direct, str(args.latency_ms / 1000)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert proxy.stdout is not None
    endpoint = proxy.stdout.readline().strip()
    print(f"{args.writers} writers, {args.latency_ms:.0f} ms for each answer, {args.seconds:.0f} s a line")
    print(
        f"{'engine':12} {'processes':>9} {'commits/s':>10} {'p50':>10} {'p99':>10} {'longest':>10} {'rounds':>7} {'group':>6} {'versions':>9} {'failed':>7} {'exact':>6}"
    )
    for processes in args.processes:
        for engine in args.engines:
            print(measure(engine, endpoint, direct, args.writers, processes, args.seconds), flush=True)
    proxy.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
