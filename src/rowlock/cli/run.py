"""`rowlock run`: runs a Python program that was written for delta-spark, unchanged, on Rowlock.

    spark-submit "$(rowlock run --script)" job.py ARGS

runs it on a cluster: this file is the application then, and the program its first argument.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


def run(program: str, arguments: Sequence[str]) -> int:
    """Runs a program as `python program arguments` would, with Rowlock in the place of delta-spark.  Returns its exit code.

    At the end, prints to standard error which features the program used that Rowlock does not have.
    """
    from rowlock import exceptions
    from rowlock.api.enable import install

    refused: dict[str, None] = {}
    exceptions.on_refusal(lambda feature: refused.setdefault(feature))
    install(_say, lambda name: refused.setdefault(name))
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).resolve().parent))
    try:
        runpy.run_path(program, run_name="__main__")
        return 0
    except SystemExit as end:
        return _code(end)
    except BaseException as error:  # noqa: BLE001  the program's own error ends it
        traceback.print_exception(type(error), error, _of_program(error.__traceback__))
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        if refused:
            _say(f"Not handled by Rowlock in this program: {', '.join(refused)}")
        sys.stdout.flush()


def _say(text: str) -> None:
    print(f"rowlock: {text}", file=sys.stderr, flush=True)


def _code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _of_program(frames: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that are the program's: without this file's and runpy's."""
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        frames = frames.tb_next
    return frames


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: spark-submit {__file__} PROGRAM [ARGUMENTS]")
    sys.path.remove(str(Path(__file__).parent))  # a program's `import check` does not mean ours
    sys.exit(run(sys.argv[1], sys.argv[2:]))
