"""Measures Rowlock beside delta-spark and deltalake: `rowlock bench` and its engines (docs/figures.md).

Installed by a checkout, not by the wheel.  `contend`, `large_statements` and `appends` are scenarios, each run in processes of its own;
`contended`, `large` and `appends` start them and print a table.  `clustering` and `rebase_cost` are programs: `python -m rowlock_bench.clustering`.
"""
