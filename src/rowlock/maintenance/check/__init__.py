"""`rowlock check`: finds damage in a table and ways of writing that may damage it, and lists which engines may write it."""
