"""`rowlock check`: what is broken in a table, what may break it, and who may write it."""
