"""An origin that stays in files says what the same origin in arrays says (I3): to whoever asks for it, and to a rebase."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, LostMatches, RowBlock, fresh_path, survivors
from rowlock.boundary.provenance import Numbers, Provenance, SourceNumbers, StoredCounts, StoredOrigin, counted, numbers_of
from rowlock.conflict.delta import Slice
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_of


def held(seed: int, *, rows: int = 60) -> Provenance:
    """The origin of rows of three files, every address once, in random order."""
    random = np.random.default_rng(seed)
    addresses = random.permutation(150)[:rows]
    return Provenance(("a", "b", "c"), (addresses % 3).astype(np.int32), (addresses // 3).astype(np.int64))


def stored(origin: Provenance, reads: list[int] | None = None) -> StoredOrigin:
    """The same origin, read in portions; `reads` notes each reading."""

    def read() -> Iterator[Provenance]:
        if reads is not None:
            reads.append(1)
        for part in np.array_split(np.arange(origin.num_rows), 7):
            yield origin.take(part)

    return StoredOrigin(origin.paths, origin.num_rows, read, origin.bitmaps())


def addresses(origin: Provenance) -> list[tuple[str, int]]:
    return [(origin.paths[f], int(p)) for f, p in zip(origin.file, origin.position, strict=True)]


def gone(path: str, *positions: int) -> dict[str, Slice]:
    return {path: Slice(AddFile(path, {}, 0, 0, True, None), only=BitMap64(positions))}


def block(origin: Provenance | StoredOrigin, payload: object = None, kind: str = "derived") -> RowBlock:
    return RowBlock(kind, 0, origin.num_rows, 0, payload, origin)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_the_same_rows_after_taking_again_and_again(seed: int) -> None:
    random, plain = np.random.default_rng(seed), held(seed)
    origin = stored(plain)
    for _ in range(4):
        assert addresses(origin.loaded()) == addresses(plain)
        assert {p: b for p, b in origin.bitmaps().items() if b} == plain.bitmaps()
        assert origin.num_rows == plain.num_rows
        mask = random.random(plain.num_rows) < 0.7
        origin, plain = origin.take(mask), plain.take(mask)


def test_by_path_gives_every_row_once_in_order() -> None:
    plain = held(3)
    found = dict(plain.by_path())
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(60))
    assert all((np.diff(rows) > 0).all() and {plain.paths[f] for f in plain.file[rows]} == {path} for path, rows in found.items())
    assert dict(Provenance((), np.empty(0, np.int32), np.empty(0, np.int64)).by_path()) == {}


@pytest.mark.parametrize("seed", range(5))
def test_the_same_rows_survive(seed: int) -> None:
    plain = held(seed)
    lost = gone("b", *(int(p) for p in plain.position[plain.file == 1][::2]), 49)
    masks = [survivors(block(origin), lost, {}, lambda b: b.provenance) for origin in (plain, stored(plain))]  # type: ignore[arg-type,return-value]
    assert masks[0] is not None and masks[1] is not None and not masks[0].all()
    assert masks[0].tolist() == masks[1].tolist()


def test_what_no_delta_meets_is_not_read() -> None:
    reads: list[int] = []
    origin = stored(Provenance(("a",), np.zeros(3, np.int32), np.array([1, 5, 9])), reads)
    for lost in (gone("z", 1), gone("a", 2, 3)):
        assert survivors(block(origin), lost, {}, lambda b: b.provenance) is None  # type: ignore[arg-type,return-value]
    assert not reads
    mask = survivors(block(origin), gone("a", 5), {}, lambda b: b.provenance)  # type: ignore[arg-type,return-value]
    assert mask is not None and mask.tolist() == [True, False, True]


def test_inserted_rows_live_while_their_source_row_has_no_match() -> None:
    origin = Provenance((fresh_path(0),), np.zeros(4, np.int32), np.array([3, 0, 2, 1]))
    counts = StoredCounts(4, (numbers_of([2]), numbers(np.array([0, 2]))))
    assert counted(counts).tolist() == [1, 0, 2, 0]
    for one in (origin, stored(origin)):
        mask = survivors(block(one, kind="inserted"), {}, {0: counts}, lambda b: b.provenance)  # type: ignore[arg-type,return-value]
        assert mask is not None and mask.tolist() == [True, False, False, True]


def numbers(values: Numbers) -> SourceNumbers:
    return SourceNumbers(len(values), lambda: iter(np.array_split(values, 3)))


def test_lost_matches_are_counted_from_files_as_from_arrays() -> None:
    plain, matched = held(1), np.arange(60) % 11
    lost = gone("c", *range(0, 50, 2))
    found = []
    for origin, payload in ((plain, numbers_of(matched)), (stored(plain), numbers(matched))):
        staged = Effects(blocks=(block(origin, payload, "matched"),), counts={0: StoredCounts(11, (payload,))})
        found.append(LostMatches(staged, lost, lambda b: b.provenance).of(0, {}))  # type: ignore[arg-type,return-value]
        assert LostMatches(staged, gone("z", 1), lambda b: b.provenance).of(0, {}) is None  # type: ignore[arg-type,return-value]
    assert found[0] is not None and found[1] is not None and found[0].sum() > 0
    assert found[0].tolist() == found[1].tolist()


def test_bitmaps_of_large_positions() -> None:
    values = np.array([0, 1, 2**31, 2**40, 2**62], dtype=np.int64)
    assert list(bitmap_of(values)) == values.tolist()
    assert not bitmap_of(np.empty(0, np.int64))
