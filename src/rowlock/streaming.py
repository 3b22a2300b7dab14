"""Streams by function: `rowlock.streaming.read` and `rowlock.streaming.sink`; by format name they need `rowlock.enable`."""

from rowlock.api.stream_functions import read, sink

__all__ = ["read", "sink"]
