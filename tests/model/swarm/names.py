"""What the columns of a case are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# No `ı` beside `İ`: plain Spark cannot read the two in one scan with _metadata (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND).
_STYLES: dict[str, dict[str, str]] = {
    "plain": {},
    "twins": {},
    "mixed case": {"rid": "RowId", "k": "K", "v": "vAlue", "s": "S", "x": "XyZ", "p": "PART", "st": "St"},
    "dots": {"rid": "r.id", "s": "st.b", "v": "st.a", "x": "x.y", "y": "x.y.z", "p": "p.q", "k": "k.", "g": ".g"},
    "back quotes": {"rid": "rid`", "k": "`k`", "v": "v``v", "s": "s`.`s", "x": "`", "p": "p`q"},
    "spaces": {"rid": "row id", "k": "k, k", "v": " v", "s": "s=1", "x": "{x}", "y": "(y);", "p": "p q", "p2": "a=b c", "st": "st st"},
    "scripts": {"rid": "ключ", "k": "値", "v": "naïve", "s": "ß", "x": "İ", "y": "ŋ", "p": "מפתח", "p2": "Ωmega", "st": "\U0001f600", "g": "ﬀ"},
    "words": {
        "rid": "numRecords",
        "k": "select",
        "v": "minValues",
        "s": "delete",
        "x": "path",
        "y": "position",
        "p": "partitionValues",
        "st": "stats",
        "g": "where",
    },
}


def name_columns(style: str, roles: Iterable[str], partition: Iterable[str]) -> dict[str, str]:
    """The name of each role, and of the column that an ALTER may add."""
    return {role: _STYLES[style].get(role, role) for role in [*roles, "extra"]}


def quoted(names: Mapping[str, str]) -> dict[str, str]:
    """The names as Spark's SQL writes them."""
    return {role: "`" + name.replace("`", "``") + "`" for role, name in names.items()}
