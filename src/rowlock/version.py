"""Rowlock's version number, which is recorded in commits."""

VERSION = "0.1.0"
ENGINE_INFO = f"Rowlock/{VERSION}"
