"""Random histories with a draw of every axis for each, against oracles that do not share Rowlock's reader."""
