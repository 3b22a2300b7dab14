"""The compression of data files: as a write says, else as the table's property, else as the session's setting; snappy by default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from rowlock.exceptions import InvalidInput

PROPERTY = "delta.parquet.compression.codec"
SETTING = "spark.sql.parquet.compression.codec"


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec by Spark's and by pyarrow's name, and what it adds to the names of files."""

    spark: str
    arrow: str
    suffix: str


_CODECS = {
    "snappy": Codec("snappy", "snappy", ".snappy"),
    "zstd": Codec("zstd", "zstd", ".zstd"),
    "gzip": Codec("gzip", "gzip", ".gz"),
    "lz4": Codec("lz4_raw", "lz4", ".lz4raw"),  # the older lz4 of Hadoop is read by few
    "lz4_raw": Codec("lz4_raw", "lz4", ".lz4raw"),
    "lz4raw": Codec("lz4_raw", "lz4", ".lz4raw"),
    "none": Codec("none", "none", ""),
    "uncompressed": Codec("none", "none", ""),
}
NAMES = tuple(_CODECS)
_chosen: ContextVar[tuple[str | None, str | None]] = ContextVar("the codecs that a write and its session ask for", default=(None, None))


@contextmanager
def compressing(option: str | None, setting: str | None) -> Iterator[None]:
    """The data files of the block are compressed as `option` says, else as their table's property, else as `setting`; None: not given.

    Raises InvalidInput for an unknown codec.
    """
    for name, codec in (("The option compression", option), (f"The setting {SETTING}", setting)):
        if codec is not None and codec.strip().lower() not in _CODECS:
            raise InvalidInput(f"{name} is one of {', '.join(NAMES)}, not {codec!r}")
    token = _chosen.set((option, setting))
    try:
        yield
    finally:
        _chosen.reset(token)


def codec_of(configuration: Mapping[str, str]) -> Codec:
    """The codec of new data files of a table with these properties."""
    option, setting = _chosen.get()
    codec = option or configuration.get(PROPERTY) or setting or "snappy"
    return _CODECS.get(codec.strip().lower(), _CODECS["snappy"])  # what others have set that Rowlock does not write
