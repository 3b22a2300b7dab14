"""`import rowlock.as_delta`, as the first line of a program that was written for delta-spark: its modules, settings and sessions become Rowlock's.

The same as `rowlock run` from inside of the program.  docs/recipes/from-delta-spark.md has what differs.
"""

from rowlock.api.enable import install

__all__ = ["install"]

install()
