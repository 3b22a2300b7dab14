"""What a stopped writer may do to the claims of registers on Hadoop's file systems: nobody is told of a state that is not its own (I7)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from rowlock.storage.hadoop import FileInfo, HadoopStore
from rowlock.storage.store import Committed, Unknown, tag_of


class LocalFiles:
    """A folder of the local disk with the calls of a Hadoop client: a rename is a link, which the kernel refuses onto a name that is taken."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = Path(path).read_bytes()[start:]
        return data if length is None else data[:length]

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(b"".join(parts))

    def rename(self, source: str, target: str, *, replace: bool) -> None:
        if replace:
            os.replace(source, target)
        else:
            os.link(source, target)
            os.unlink(source)

    def info(self, path: str) -> FileInfo | None:
        found = Path(path)
        return FileInfo(found.name, found.is_dir(), found.stat().st_size, int(found.stat().st_mtime * 1000)) if found.exists() else None

    def entries(self, folder: str) -> list[FileInfo]:
        return [info for found in Path(folder).iterdir() if (info := self.info(str(found))) is not None]

    def delete(self, path: str) -> None:
        if Path(path).is_dir():
            Path(path).rmdir()
        else:
            Path(path).unlink(missing_ok=True)


@pytest.mark.parametrize("resumes", ["before the other's rename", "after it"])
def test_a_claim_that_was_given_up_and_taken_by_another_writer(tmp_path: Path, resumes: str) -> None:
    """A writer stands still between its claim and the rename; another finds the claim too old and takes the name for its own."""
    files = LocalFiles(tmp_path)
    first, second = HadoopStore(files), HadoopStore(LocalFiles(tmp_path))
    first.put("lock.json", b"epoch 1")
    told = {}
    rename = files.rename

    def late(source: str, target: str, *, replace: bool) -> None:
        if replace and source.endswith(".claim") and "second" not in told:
            os.utime(source, (1, 1))
            told["give up"] = second.replace_if("lock.json", b"epoch 2 of the second", tag_of(b"epoch 1"))  # it finds the claim, and deletes it
            theirs = second.files.rename

            def resumed(source: str, target: str, *, replace: bool) -> None:
                if replace and resumes == "before the other's rename":
                    rename(source, target, replace=True)  # the first goes on here, and renames what is not its own
                theirs(source, target, replace=replace)

            second.files.rename = resumed  # type: ignore[method-assign]
            told["second"] = second.replace_if("lock.json", b"epoch 2 of the second", tag_of(b"epoch 1"))
            if resumes == "before the other's rename":
                return
        rename(source, target, replace=replace)

    files.rename = late  # type: ignore[method-assign]
    told["first"] = first.replace_if("lock.json", b"epoch 2 of the first", tag_of(b"epoch 1"))
    assert first.get("lock.json") == b"epoch 2 of the second"
    assert isinstance(told["first"], Unknown), "it is not told that its own state stands there"
    assert isinstance(told["second"], Unknown if resumes == "before the other's rename" else Committed)
