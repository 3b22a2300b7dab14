"""The axes of the swarm and their values.  Each axis is a deck, shuffled anew each time that it is used up: a run of as many seeds as an axis has values meets each value once."""

from __future__ import annotations

import random
from collections.abc import Mapping

AXES: Mapping[str, tuple[str, ...]] = {
    "zone": ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"),
    "ansi": ("on", "off"),
    "oracle": ("duckdb", "spark"),
    "partition": (
        "none",
        "string",
        "long",
        "timestamp",
        "none",
        "date",
        "double",
        "decimal",
        "timestamp_ntz",
        "boolean",
        "binary",
        "int",
        "none",
        "short",
        "byte",
        "float",
        "two",
    ),
    "names": ("plain", "twins", "dots", "back quotes", "spaces", "scripts", "mixed case", "words"),
    "nested": ("off", "on"),
    "type of x": (
        "timestamp",
        "double",
        "decimal(38,18)",
        "string",
        "binary",
        "date",
        "long",
        "timestamp_ntz",
        "decimal(38,0)",
        "float",
        "boolean",
        "struct",
        "array",
        "map",
        "short",
        "byte",
        "int",
        "decimal(10,2)",
    ),
    "type of y": ("int", "timestamp", "string", "decimal(38,0)", "date", "timestamp_ntz", "binary", "double", "map", "array", "boolean"),
    "vectors": ("inline", "off", "spilled"),
    "tracking": ("off", "on"),
    "feed": ("off", "on"),
    "mapping": ("none", "name", "none", "id"),
    "generated": ("off", "on", "off"),
    "constraint": ("off", "check", "not null"),
    "origin": ("arrow append", "spark write", "converted", "by hand", "by deltalake"),
    "made again": ("no", "yes"),
    "files": ("one", "three", "two", "six"),
    "winner": (
        "update",
        "delete",
        "merge",
        "append",
        "arrow append",
        "deltalake append",
        "append by hand",
        "overwrite",
        "replace where",
        "optimize",
        "zorder",
        "restore",
        "add column",
        "rename column",
        "add constraint",
        "set property",
        "delta-spark",
    ),
    "loser": ("update", "delete", "merge", "several", "append", "optimize", "zorder", "overwrite", "replace where", "update", "merge", "several"),
    "other loser": ("merge", "update", "several", "delete"),
    "round": ("staged", "before_put", "both"),
    "limit driver_rows": ("3", "default", "8", "default", "0"),
    "limit driver_bytes": ("default", "default", "0", "300"),
    "limit local_rows": ("0", "default", "12", "default"),
    "limit moved_bytes": ("default", "0"),
    "limit moved_again_bytes": ("default", "0"),
    "limit sorted_bytes": ("default", "default", "0"),
    "limit inspected_rows": ("default", "0"),
    "limit unbounded_scan_rows": ("default", "0"),
    "limit single_task_bytes": ("default", "0"),
    "limit masked_rows": ("default", "0"),
    "limit append_driver_bytes": ("default", "0", "default"),
    "limit cross_pairs": ("default", "2"),
    "limit held_source_bytes": ("default", "default", "0"),
    "limit broadcast_source_bytes": ("default", "0"),
    "limit outer_join_ratio": ("default", "0"),
    "limit collected_positions_rows": ("default", "1"),
    "limit copied_piece_bytes": ("default", "64"),
    "limit sampled_rows": ("default", "4"),
    "limit plan_entries": ("default", "0", "default"),
    "limit append_file_bytes": ("default", "600"),
    "limit append_held_bytes": ("default", "300"),
    "limit stream_piece_bytes": ("default", "300"),
    "limit whole_object_bytes": ("default", "0"),
    "limit changed_files": ("default", "0"),
    "limit snapshot_chunk_files": ("default", "1"),
    "limit replay_batch_bytes": ("default", "1"),
    "limit row_cache_bytes": ("default", "0"),
    "limit column_cache_bytes": ("default", "0"),
    "limit row_id_cache_bytes": ("default", "0"),
    "limit vector_cache_bytes": ("default", "0"),
    "limit commit_cache_bytes": ("default", "0"),
    "limit path_cache_bytes": ("default", "0"),
    "limit inline_vector_bytes": ("default",),  # with the axis of vectors
    "checkpoints": ("each 10", "each 2"),
    "generated code": ("off", "off", "on"),
}


def draw(seed: int) -> dict[str, str]:
    """The value of each axis in the case of a seed."""
    return {axis: _card(axis, values, seed) for axis, values in AXES.items()}


def _card(axis: str, values: tuple[str, ...], seed: int) -> str:
    deck = list(values)
    random.Random(f"{axis} {seed // len(deck)}").shuffle(deck)
    return deck[seed % len(deck)]


def rng_of(seed: int) -> random.Random:
    """The chance that makes rows and statements of a case."""
    return random.Random(f"swarm {seed}")
