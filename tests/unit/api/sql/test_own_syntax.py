"""Delta's own statements are recognised in any spelling, and what Rowlock has not is refused by name (I9)."""

from __future__ import annotations

import pytest

from rowlock.api.sql.own_syntax import OwnStatement, parse
from rowlock.exceptions import InvalidInput, UnsupportedFeature


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("OPTIMIZE sales", OwnStatement("OPTIMIZE", ("sales",))),
        (
            "optimize db.`a``b` where p = 'x ZORDER BY' zorder by (a, `b.c`);",
            OwnStatement("OPTIMIZE", ("db", "a`b"), {"where": "p = 'x ZORDER BY'", "z_order": ["`a`", "`b.c`"]}),
        ),
        ("-- why\nOPTIMIZE t ZORDER BY a.b, c", OwnStatement("OPTIMIZE", ("t",), {"z_order": ["`a`.`b`", "`c`"]})),
        ("/* x */ VACUUM delta.`/a b` RETAIN 200 HOURS", OwnStatement("VACUUM", ("delta", "/a b"), {"hours": 200.0})),
        ("VACUUM '/it''s'", OwnStatement("VACUUM", ("delta", "/it's"))),
        ("VACUUM t DRY RUN RETAIN 1 HOURS", OwnStatement("VACUUM", ("t",), {"dry_run": True, "hours": 1.0})),
        ("VACUUM t LITE", OwnStatement("VACUUM", ("t",), {"lite": True})),
        ("vacuum t full retain 2 hours dry run", OwnStatement("VACUUM", ("t",), {"lite": False, "hours": 2.0, "dry_run": True})),
        ("VACUUM t USING INVENTORY d.`x y` DRY RUN", OwnStatement("VACUUM", ("t",), {"inventory": ("d", "x y"), "dry_run": True})),
        (
            "VACUUM t RETAIN 1 HOURS USING INVENTORY (SELECT max(')') FROM (x))",
            OwnStatement("VACUUM", ("t",), {"hours": 1.0, "inventory": "SELECT max(')') FROM (x)"}),
        ),
        ("OPTIMIZE t FULL WHERE p = 1", OwnStatement("OPTIMIZE", ("t",), {"full": True, "where": "p = 1"})),
        ("ALTER TABLE t DROP FEATURE x", OwnStatement("DROP FEATURE", ("t",), {"feature": "x", "truncate": False})),
        (
            "ALTER TABLE d.t DROP FEATURE 'v2Checkpoint' TRUNCATE HISTORY",
            OwnStatement("DROP FEATURE", ("d", "t"), {"feature": "v2Checkpoint", "truncate": True}),
        ),
        ("ALTER TABLE t ALTER COLUMN c SYNC IDENTITY", OwnStatement("SYNC IDENTITY", ("t",), {"column": "c"})),
        ("ALTER TABLE t DROP COLUMN feature", None),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", None),
        ("desc history t limit 3", OwnStatement("HISTORY", ("t",), {"limit": 3})),
        ("DESCRIBE DETAIL delta.`/t`", OwnStatement("DETAIL", ("delta", "/t"))),
        ("RESTORE TABLE t TO VERSION AS OF 7", OwnStatement("RESTORE", ("t",), {"version": 7})),
        ("RESTORE t TIMESTAMP AS OF '2026-01-31'", OwnStatement("RESTORE", ("t",), {"timestamp": "2026-01-31"})),
        (
            "CONVERT TO DELTA parquet.`/f` PARTITIONED BY (a int, b decimal(3,1))",
            OwnStatement("CONVERT", ("parquet", "/f"), {"partitions": "a int, b decimal(3,1)"}),
        ),
        ("GENERATE symlink_format_manifest FOR TABLE t", OwnStatement("GENERATE", ("t",), {"mode": "symlink_format_manifest"})),
        (
            "CREATE TABLE IF NOT EXISTS db.a SHALLOW CLONE delta.`/b` VERSION AS OF 3 TBLPROPERTIES ('x' = 'y', delta.appendOnly = true) LOCATION '/c'",
            OwnStatement(
                "CLONE",
                ("db", "a"),
                {
                    "mode": "createIfNotExists",
                    "source": ("delta", "/b"),
                    "version": 3,
                    "properties": {"x": "y", "delta.appendOnly": "true"},
                    "location": "/c",
                },
            ),
        ),
        (
            "create or replace table a shallow clone b timestamp as of '2026-01-31'",
            OwnStatement("CLONE", ("a",), {"mode": "createOrReplace", "source": ("b",), "timestamp": "2026-01-31"}),
        ),
        ("REPLACE TABLE a SHALLOW CLONE b", OwnStatement("CLONE", ("a",), {"mode": "replace", "source": ("b",)})),
        ("CREATE TABLE t (clone int)", None),
        ("CREATE TABLE t AS SELECT shallow clone FROM x", None),
        ("CREATE TABLE t USING delta AS SELECT * FROM shallow clone", None),
        ("SELECT 1", None),
        ("DESCRIBE t", None),
        ("", None),
    ],
)
def test_parsed(text: str, statement: OwnStatement | None) -> None:
    assert parse(text) == statement


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))", "REORG TABLE ... APPLY (UPGRADE ...)"),
        ("CREATE OR REPLACE TABLE a DEEP CLONE b", "DEEP CLONE"),
    ],
)
def test_refused_by_name(text: str, feature: str) -> None:
    with pytest.raises(UnsupportedFeature) as error:
        parse(text)
    assert error.value.feature == feature


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE",
        "VACUUM t DRY RUN DRY RUN",
        "VACUUM t LITE FULL",
        "VACUUM t USING INVENTORY x LITE",
        "VACUUM t USING INVENTORY ()",
        "VACUUM t USING INVENTORY (SELECT 1",
        "ALTER TABLE t DROP FEATURE x y",
        "OPTIMIZE t WHERE",
        "OPTIMIZE t u",
        "VACUUM t RETAIN 3",
        "RESTORE t",
        "RESTORE t TO VERSION AS OF x",
        "CREATE TABLE a SHALLOW CLONE",
        "CREATE TABLE a SHALLOW CLONE b VERSION 3",
        "CREATE TABLE a SHALLOW CLONE b VERSION AS OF 1.5",
        "RESTORE t TO VERSION AS OF 1.5",
        "DESC HISTORY",
        "GENERATE x",
    ],
)
def test_wrong_texts_are_named(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "ALTER TABLE d.t ADD CONSTRAINT `a b` CHECK (f(x) > ')' OR (y = 1));",
            ("ADD CONSTRAINT", ("d", "t"), {"name": "a b", "condition": "f(x) > ')' OR (y = 1)"}),
        ),
        ("alter table '/p' add constraint c check (x)", ("ADD CONSTRAINT", ("delta", "/p"), {"name": "c", "condition": "x"})),
        ("ALTER TABLE t DROP CONSTRAINT c", ("DROP CONSTRAINT", ("t",), {"name": "c", "if_exists": False})),
        ("ALTER TABLE t DROP CONSTRAINT IF EXISTS c", ("DROP CONSTRAINT", ("t",), {"name": "c", "if_exists": True})),
        ("ALTER TABLE t ADD COLUMNS (constraint int)", None),
        ("ALTER TABLE t SET TBLPROPERTIES (a = 'add constraint c')", None),
        ("ALTER TABLE t DROP FEATURE x", ("DROP FEATURE", ("t",), {"feature": "x", "truncate": False})),
    ],
)
def test_constraints_are_read_for_a_spark_whose_grammar_lacks_them(text: str, statement: tuple[str, tuple[str, ...], dict[str, object]] | None) -> None:
    assert parse(text, constraints=True) == (None if statement is None else OwnStatement(*statement))


@pytest.mark.parametrize(
    "text", ["ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a)", "ALTER TABLE t ADD CONSTRAINT c CHECK (a", "ALTER TABLE t DROP CONSTRAINT c CASCADE"]
)
def test_other_constraints_are_no_statement(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text, constraints=True)
