"""Appends in a process and then in children of it: `forking_writer.py KIND THREADS PATH [OPTIONS]`.  Prints how each child ended.

KIND is fork, forkserver or spawn.  With THREADS, threads of the parent append to the same table all the while.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading

import pyarrow as pa

import rowlock

APPENDS, CHILDREN = 6, 2
_LARGE = {"changed_files": 1, "snapshot_chunk_files": 3}
"""As tables of many files are held and written to checkpoints."""


def append(path: str, options: dict[str, str] | None, writer: int) -> None:
    for n in range(APPENDS):
        rowlock.append(path, pa.table({"writer": [writer], "n": [n]}), storage_options=options)


def child(path: str, options: dict[str, str] | None, writer: int, answers: multiprocessing.Queue[str]) -> None:
    rowlock.set_limits(**_LARGE)
    try:
        append(path, options, writer)
        answers.put(f"{rowlock.to_arrow(path, storage_options=options)['writer'].to_pylist().count(writer)} rows")
    except rowlock.exceptions.StorageError as e:
        answers.put(str(e))


def main() -> None:
    kind, threads, path, options = sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    rowlock.set_limits(**_LARGE)
    rowlock.append(path, pa.table({"writer": [0], "n": [0]}), storage_options=options, properties={"delta.checkpointInterval": "5"})
    append(path, options, 0)
    rowlock.to_arrow(path, storage_options=options)
    done = threading.Event()

    def at_work() -> None:
        while not done.is_set():
            rowlock.append(path, pa.table({"writer": [-1], "n": [0]}), storage_options=options)

    running = [threading.Thread(target=at_work) for _ in range(threads)]
    for thread in running:
        thread.start()
    context = multiprocessing.get_context(kind)
    answers = context.Queue()
    children = [context.Process(target=child, args=(path, options, n + 1, answers)) for n in range(CHILDREN)]
    for process in children:
        process.start()
    for process in children:
        process.join(60)
        if process.is_alive():
            print("hangs")
            process.kill()
    done.set()
    for thread in running:
        thread.join()
    print(*(answers.get(timeout=5) for process in children if not process.exitcode), sep="\n")


if __name__ == "__main__":
    main()
