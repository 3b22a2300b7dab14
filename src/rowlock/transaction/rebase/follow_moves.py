"""Following rows to where a compaction put them, instead of meeting them again as gone and as born.

A winner's OPTIMIZE changes no row.  Where it says how its inputs lie in its outputs, every address
that a transaction has staged is computed anew, and no row is read.  What cannot be followed (another
engine's compaction, a count that does not fit) is left to the rebase, which is right without any of this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, Provenance, RowBlock
from rowlock.conflict.delta import Delta, Slice, VectorOf, delta_of, live_slice
from rowlock.protocol.actions import AddFile, Commit, RemoveFile
from rowlock.protocol.deletion_vector import bitmap_to_numpy, positions_except
from rowlock.protocol.placement import Placement, placement_of

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Followed:
    """Effects under their rows' new addresses, what is left of the delta, and how many rows were followed."""

    effects: Effects
    delta: Delta
    rows: int


@dataclass(frozen=True, slots=True)
class _Move:
    """The rows at `living` (sorted) of a file lie in the file `into`, from `offset` on."""

    path: str
    living: Positions
    into: str
    offset: int


def follow_moves(
    effects: Effects, winners: Sequence[Commit], paths: Iterable[str], known: Mapping[str, AddFile], after: Mapping[str, AddFile], vector_of: VectorOf
) -> Followed | None:
    """Carries effects over the winners' compactions; None where there is none to follow.

    `known` and `after` are the files among `paths` as the transaction knows them and as they are now.
    """
    seen = {p: live_slice(f, vector_of) for p, f in known.items()}
    gone: list[Slice] = []
    rows = 0
    found = False
    for winner in winners:
        for group in _groups(winner).values():
            moves = _moves(winner, group, seen, vector_of)
            if moves is None:
                continue
            found = True
            gone += _step(winner, group, moves, seen, vector_of)
            effects, count = _carried(effects, {m.path: m for m in moves})
            rows += count
    if not found:
        return None
    rest = delta_of(paths, seen, {p: live_slice(f, vector_of) for p, f in after.items()})
    return Followed(effects, Delta((*gone, *rest.gone), rest.born), rows)


def _groups(winner: Commit) -> dict[str, list[tuple[RemoveFile, Placement]]]:
    groups: dict[str, list[tuple[RemoveFile, Placement]]] = {}
    for remove in winner.removes:
        if (place := placement_of(remove)) is not None:
            groups.setdefault(place.into, []).append((remove, place))
    return groups


def _dead(remove: RemoveFile, vector_of: VectorOf) -> BitMap64:
    return vector_of(AddFile(remove.path, {}, 0, 0, True, None, deletion_vector=remove.deletion_vector))


def _moves(winner: Commit, group: Sequence[tuple[RemoveFile, Placement]], seen: Mapping[str, Slice], vector_of: VectorOf) -> list[_Move] | None:
    """The moves into one output, if every count fits: then the output holds the inputs' rows and nothing else."""
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


def _step(winner: Commit, group: Sequence[tuple[RemoveFile, Placement]], moves: Sequence[_Move], seen: dict[str, Slice], vector_of: VectorOf) -> list[Slice]:
    """The files as the transaction knows them after one move, and the rows that were gone before they could be moved.

    Rows of an input that it did not know are, to it, dead in the output, until the delta finds them born.
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
            unknown |= BitMap64((revived + move.offset).tolist())
    output = next(a for a in winner.adds if a.path == moves[0].into)
    seen[output.path] = Slice(output, without=unknown or None)
    return gone


def _carried(effects: Effects, moves: Mapping[str, _Move]) -> tuple[Effects, int]:
    """The effects with every address in a moved file computed anew.  Addresses of rows that were dead already stay, as gone."""
    tombstones: dict[str, BitMap64] = {}
    rows = 0
    for path, positions in effects.tombstones.items():
        if path not in moves:
            tombstones[path] = tombstones.get(path, BitMap64()) | positions
            continue
        move, at = moves[path], bitmap_to_numpy(positions)
        alive = np.isin(at, move.living)
        rows += int(alive.sum())
        new = BitMap64((np.searchsorted(move.living, at[alive]) + move.offset).tolist())
        tombstones[move.into] = tombstones.get(move.into, BitMap64()) | new
        if not alive.all():
            tombstones[path] = BitMap64(at[~alive].tolist())
    blocks = tuple(_carried_block(b, moves) for b in effects.blocks)
    return Effects({p: t for p, t in tombstones.items() if t}, blocks, effects.counts), rows


def _carried_block(block: RowBlock, moves: Mapping[str, _Move]) -> RowBlock:
    origin = block.provenance
    if origin is None or not any(p in moves for p in origin.paths):
        return block
    names = list(origin.paths)
    index = {p: n for n, p in enumerate(names)}
    file, position = origin.file.copy(), origin.position.copy()
    for n, path in enumerate(origin.paths):
        if path in moves:
            move = moves[path]
            at = np.flatnonzero(origin.file == n)
            alive = at[np.isin(origin.position[at], move.living)]
            position[alive] = np.searchsorted(move.living, origin.position[alive]) + move.offset
            file[alive] = index.setdefault(move.into, len(names))
            if index[move.into] == len(names):
                names.append(move.into)
    return replace(block, provenance=Provenance(tuple(names), file, position))
