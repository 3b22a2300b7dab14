"""Follows rows through a winner's compaction, so that they are not rebased as rows that are gone and born.

OPTIMIZE changes no row.  If the winner's remove actions record where each input's rows are in the output (placement tags),
the staged addresses are translated and no row is read.  What cannot be followed (another engine's compaction, counts that
do not match) is left to the rebase, whose result is the same without this module.

Of a compaction of our own those bins are dropped of which others left too little.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, RowBlock
from rowlock.boundary.engine import Program
from rowlock.boundary.provenance import Provenance
from rowlock.conflict.delta import Delta, Slice, VectorOf, delta_of, live_slice
from rowlock.limits import limits
from rowlock.protocol.actions import AddFile, Commit, Placement, RemoveFile, placement_of
from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy, positions_except

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Followed:
    """The effects with translated addresses, the rest of the delta, and the number of tombstones that were translated."""

    effects: Effects
    delta: Delta
    rows: int


@dataclass(frozen=True, slots=True)
class _Move:
    """The rows at the sorted positions `living` of file `path` are now in file `into`, in the same order, from position `offset` on."""

    path: str
    living: Positions
    into: str
    offset: int


def follow_moves(
    effects: Effects, winners: Sequence[Commit], paths: Iterable[str], known: Mapping[str, AddFile], after: Mapping[str, AddFile], vector_of: VectorOf
) -> Followed | None:
    """Translates the effects' addresses through the winners' compactions; None if there is none that can be followed.

    `known` and `after` are the files among `paths` as the transaction last saw them, and as they are at the head.
    """
    seen = {p: live_slice(f, vector_of) for p, f in sorted(known.items())}  # whatever the hashes of the paths are, vectors are read in one order
    gone: list[Slice] = []
    rows = 0
    found = False
    for winner in winners:
        for group in _inputs_by_output(winner).values():
            moves = _moves(winner, group, seen, vector_of)
            if moves is None:
                continue
            found = True
            # A file that left and was restored has rows that are born, whatever is staged at their old addresses.
            followed = {m.path: m for m in moves if m.path in seen}
            gone += _apply_moves(winner, group, moves, seen, vector_of)
            effects, count = _readdressed(effects, followed)
            rows += count
    if not found:
        return None
    rest = delta_of(paths, seen, {p: live_slice(f, vector_of) for p, f in sorted(after.items())})
    return Followed(effects, Delta((*gone, *rest.gone), rest.born), rows)


def _inputs_by_output(winner: Commit) -> dict[str, list[tuple[RemoveFile, Placement]]]:
    """The removes with placement tags, by the path of the file that their rows were compacted into."""
    groups: dict[str, list[tuple[RemoveFile, Placement]]] = {}
    for remove in winner.removes:
        if (place := placement_of(remove)) is not None:
            groups.setdefault(place.into, []).append((remove, place))
    return groups


def _dead(remove: RemoveFile, vector_of: VectorOf) -> BitMap64:
    return vector_of(AddFile(remove.path, {}, 0, 0, True, None, deletion_vector=remove.deletion_vector))


def _moves(winner: Commit, group: Sequence[tuple[RemoveFile, Placement]], seen: Mapping[str, Slice], vector_of: VectorOf) -> list[_Move] | None:
    """The moves into one output; None unless all counts match, so that the output has exactly the live rows of its inputs."""
    into = group[0][1].into
    output = next((a for a in winner.adds if a.path == into), None)
    if output is None or output.deletion_vector is not None or output.num_records != sum(p.rows for _, p in group):
        return None
    moves = []
    for remove, place in group:
        file = seen[remove.path].file if remove.path in seen else AddFile(remove.path, {}, 0, 0, True, remove.stats)
        if file.num_records is None:
            return None
        living = bitmap_to_numpy(positions_except(file.num_records, _dead(remove, vector_of)))
        if len(living) != place.rows:
            return None
        moves.append(_Move(remove.path, living, into, place.offset))
    edges = sorted((m.offset, m.offset + len(m.living)) for m in moves)
    return moves if all(a[1] == b[0] for a, b in itertools.pairwise(edges)) and edges[0][0] == 0 else None


def _apply_moves(
    winner: Commit, group: Sequence[tuple[RemoveFile, Placement]], moves: Sequence[_Move], seen: dict[str, Slice], vector_of: VectorOf
) -> list[Slice]:
    """Replaces the inputs by their output in `seen`, and returns the rows that were deleted before the compaction (gone).

    Rows of inputs that the transaction never saw are marked dead in the output, so the delta reports them as born.
    """
    gone: list[Slice] = []
    unknown = BitMap64()
    for move, (remove, _) in zip(moves, group, strict=True):
        before = seen.pop(move.path, None)
        if before is None:
            unknown.add_range(move.offset, move.offset + len(move.living))
            continue
        dead = before.without or BitMap64()
        if lost := _dead(remove, vector_of) - dead:
            gone.append(Slice(before.file, only=lost))
        if dead:
            revived = np.flatnonzero(np.isin(move.living, bitmap_to_numpy(dead)))
            unknown |= bitmap_of(revived + move.offset)
    output = next(a for a in winner.adds if a.path == moves[0].into)
    seen[output.path] = Slice(output, without=unknown or None)
    return gone


def _readdressed(effects: Effects, moves: Mapping[str, _Move]) -> tuple[Effects, int]:
    """The effects with translated addresses, and how many tombstones were translated.  Addresses of rows that were deleted before stay; these are gone."""
    tombstones: dict[str, BitMap64] = {}
    rows = 0
    for path, positions in effects.tombstones.items():
        if path not in moves:
            tombstones[path] = tombstones.get(path, BitMap64()) | positions
            continue
        move, at = moves[path], bitmap_to_numpy(positions)
        alive = np.isin(at, move.living)
        rows += int(alive.sum())
        new = bitmap_of(np.searchsorted(move.living, at[alive]) + move.offset)
        tombstones[move.into] = tombstones.get(move.into, BitMap64()) | new
        if not alive.all():
            tombstones[path] = bitmap_of(at[~alive])
    blocks = tuple(_readdressed_block(b, moves) for b in effects.blocks)
    return Effects({p: t for p, t in tombstones.items() if t}, blocks, effects.counts), rows


def _readdressed_block(block: RowBlock, moves: Mapping[str, _Move]) -> RowBlock:
    origin = block.provenance
    if origin is None or not any(p in moves for p in origin.paths):
        return block
    origin = origin.loaded()
    for path, rows in origin.by_path():
        if (move := moves.get(path)) is not None:
            alive = rows[np.isin(origin.position[rows], move.living)]
            there = np.searchsorted(move.living, origin.position[alive]) + move.offset
            origin = origin.readdressed(alive, Provenance((move.into,), np.zeros(len(there), np.int32), there))
    return replace(block, provenance=origin)


def drop_overlapping_bins(
    program: Program, effects: Effects, winners: Sequence[Commit], after: Mapping[str, AddFile], *, vectors: bool, in_lane: bool = False
) -> Effects:
    """The effects of a program that moves rows without those bins that are no longer worth their commit.

    `after` are the files that the winners touched and that are live at the head.  Rows of other input files are gone: they leave the output by a
    deletion vector, and where the table has none (`vectors`) the bin is moved anew (`onto_head`): a large one not in the commit lane, where others wait.
    """
    move = next(s for s in program if s.kind == "move")
    gone = {r.path: r.data_change for w in winners for r in w.removes if r.path not in after}
    size_bytes = {b.group: b.size_bytes for b in effects.blocks}
    most = limits().moved_again_bytes if in_lane and not vectors else math.inf
    lost = {
        n
        for n, group in enumerate(move.only)
        if any(p in gone for p in group) and not (_stays(group, gone, effects, vectors=vectors) and size_bytes.get(n, 0) <= most)
    }
    if not lost:
        return effects
    paths = {p for n in lost for p in move.only[n]}
    return Effects({p: t for p, t in effects.tombstones.items() if p not in paths}, tuple(b for b in effects.blocks if b.group not in lost), effects.counts)


def _stays(group: Sequence[str], gone: Mapping[str, bool], effects: Effects, *, vectors: bool) -> bool:
    """Whether a bin has two files left.  `gone` says of input files that are no longer live whether their rows were changed, and not just moved: where
    another compaction took most of the rows, as one with the same files does, an output with as many marked rows would be worse than none.
    """
    left = [p for p in group if p in effects.tombstones and p not in gone]
    rows, rows_left = (sum(len(effects.tombstones.get(p, ())) for p in of) for of in (group, left))
    return len(left) > 1 and (not vectors or all(gone.get(p, True) for p in group) or 2 * rows_left >= rows)
