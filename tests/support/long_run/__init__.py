"""Six processes change one table for thousands of versions, with OPTIMIZE, VACUUM, checkpoints and cleanup of the log among them; one more reads it and judges (I2, I3, I5, I10)."""
