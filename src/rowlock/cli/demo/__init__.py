"""`rowlock demo`: two merge streams, a compaction and a GDPR delete change one table at the same time; then the result is checked."""
