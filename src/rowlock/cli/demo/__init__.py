"""The demo: the article's two merge streams, a compaction and a GDPR delete on one table, and a check of the outcome."""
