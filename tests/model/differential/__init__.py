"""Statements drawn at random, each run by delta-spark and by Rowlock on copies of one table, and what differs."""
