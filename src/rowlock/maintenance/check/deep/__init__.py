"""`rowlock check --deep`: opens every version, reads every live file, and compares what is there with what the log says."""
