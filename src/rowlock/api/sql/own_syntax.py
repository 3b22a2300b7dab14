"""Delta's own statements, which Spark's grammar does not have: recognises and parses their text.

OPTIMIZE, REORG, VACUUM, DESCRIBE HISTORY, DESCRIBE DETAIL, RESTORE, CONVERT TO DELTA, GENERATE, SHALLOW CLONE, DROP FEATURE, SYNC IDENTITY, and for Spark
4.0 ADD and DROP CONSTRAINT, become values; deep clones and what else Delta has are refused by name.  Expressions stay texts, which Spark parses.  A text comes here if
`OWN` in rowlock.java lets its first word through; what the statements do and answer is in api/sql/statements.py.  Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rowlock.conditions import named
from rowlock.display import did_you_mean
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.protocol.schema import dotted

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)
      |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      |(?P<quoted>`(?:[^`]|``)*`)
      |(?P<number>-?\d+(?:\.\d+)?(?![A-Za-z_0-9]))
      |(?P<word>[A-Za-z_0-9]+)
      |(?P<mark>.)""",
    re.DOTALL | re.VERBOSE,
)
_CLONE = re.compile(r"(CREATE|CREATE OR REPLACE|REPLACE) TABLE( IF NOT EXISTS)? \S+( mark \S+)* SHALLOW CLONE\b")
_DEEP_CLONE = re.compile(r"(CREATE|REPLACE) (.* )?DEEP CLONE\b")
"""How clones begin, in the words of the statement (see `_Reader.words`)."""
_WORDS = ("APPLY", "DRY RUN", "FULL", "HOURS", "LIMIT", "LITE", "PURGE", "RETAIN", "SHALLOW CLONE", "TIMESTAMP AS OF", "VERSION AS OF", "WHERE", "ZORDER BY")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OwnStatement:
    """A parsed statement.

    kind     OPTIMIZE, REORG, VACUUM, HISTORY, DETAIL, RESTORE, CONVERT, GENERATE, CLONE, DROP FEATURE, SYNC IDENTITY, ADD or DROP CONSTRAINT
    table    the parts of the table's name; one path is delta.`/path`
    values   what else it says, by name
    """

    kind: str
    table: tuple[str, ...]
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, statement: str) -> None:
        self.source = statement
        found = [_Token(str(m.lastgroup), m.group(), m.start(), m.end()) for m in _TOKEN.finditer(statement)]
        self.tokens = [t for t in found if t.kind != "space"]
        while self.tokens and self.tokens[-1].text == ";":
            self.tokens.pop()
        self.at = 0

    @property
    def words(self) -> str:
        """The whole statement in large letters, names in quotes and marks by their kinds."""
        return " ".join(t.text.upper() if t.kind == "word" else t.kind for t in self.tokens)

    @property
    def kind(self) -> str:
        """The kind of the next token; empty at the end."""
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def ahead(self, *words: str) -> bool:
        """Whether these words come next."""
        here = self.tokens[self.at : self.at + len(words)]
        return len(here) == len(words) and all(t.kind in ("word", "mark") and t.text.upper() == w for t, w in zip(here, words, strict=True))

    def take(self, *words: str) -> bool:
        """Passes over these words, if they come next."""
        if self.ahead(*words):
            self.at += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        """Passes over these words.  Raises InvalidInput where they do not come next."""
        if not self.take(*words):
            raise self.wrong(" ".join(words))

    def wrong(self, expected: str) -> InvalidInput:
        """The error of a text that is none of the statements."""
        found = self.tokens[self.at].text if self.at < len(self.tokens) else "the end"
        condition = named("PARSE_SYNTAX_ERROR", error=f"'{found}'" if self.at < len(self.tokens) else "end of input", hint="")
        text = f"{expected} was expected at {found!r} in the statement{did_you_mean(found, _WORDS)}: {self.source.strip()}"
        return InvalidInput(text, condition=condition)

    def next(self, kind: str, expected: str) -> str:
        """The text of the next token, of this kind."""
        if self.kind != kind:
            raise self.wrong(expected)
        self.at += 1
        return self.tokens[self.at - 1].text

    def number(self) -> str:
        return self.next("number" if self.kind == "number" else "word", "a number")

    def whole_number(self) -> int:
        return int(self._number_as(r"-?\d+", "a whole number"))

    def hours(self) -> float:
        return float(self._number_as(r"-?\d+(\.\d+)?", "a number of hours"))

    def _number_as(self, pattern: str, what: str) -> str:
        """The text of a number of this form.  Raises InvalidInput for another one."""
        text = self.number()
        if not re.fullmatch(pattern, text):
            self.at -= 1
            raise self.wrong(what)
        return text

    def string(self) -> str:
        """A string's value."""
        return unquoted(self.next("text", "a string in quotes"))

    def name(self) -> tuple[str, ...]:
        """The parts of a name, or of a path in quotes as those of delta.`/path`."""
        if self.kind == "text":
            return ("delta", self.string())
        parts = [self.part()]
        while self.take("."):
            parts.append(self.part())
        return tuple(parts)

    def part(self) -> str:
        """One part of a name."""
        kind = self.kind
        text = self.next(kind if kind == "quoted" else "word", "a table's name")
        return text[1:-1].replace("``", "`") if kind == "quoted" else text

    def until(self, *stops: str) -> str:
        """The source up to one of these words outside of parentheses, or to the end."""
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if depth == 0 and token.kind == "word" and token.text.upper() in stops:
                break
            depth += (token.text == "(") - (token.text == ")") if token.kind == "mark" else 0
            self.at += 1
        if start == self.at:
            raise self.wrong("a condition")
        return self.source[self.tokens[start].start : self.tokens[self.at - 1].end]

    def inside(self, expected: str) -> str:
        """The source within the parentheses that come next.  Raises InvalidInput where there is none, or nothing in them."""
        self.need("(")
        start, depth = self.at, 1
        while depth and self.at < len(self.tokens):
            depth += {"(": 1, ")": -1}.get(self.tokens[self.at].text, 0)
            self.at += 1
        if depth or self.at - 1 == start:
            raise self.wrong(f"{expected} and )")
        return self.source[self.tokens[start].start : self.tokens[self.at - 2].end]

    def end(self) -> None:
        """Raises InvalidInput where something is left."""
        if self.at < len(self.tokens):
            raise self.wrong("the end of the statement")


def unquoted(text: str) -> str:
    """The value of a string of SQL in quotes."""
    inside, quote = text[1:-1], text[0]
    escapes = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
    return _ESCAPE.sub(lambda m: escapes.get(m[1], m[1]), inside.replace(quote * 2, quote))


def parse(statement: str, *, constraints: bool = False) -> OwnStatement | None:
    """The statement in a text; None where it is one of Spark's.  Raises InvalidInput for a wrong one, UnsupportedFeature for one that Rowlock has not.

    With `constraints` ADD and DROP CONSTRAINT are read too, for a Spark whose grammar lacks them.
    """
    reader = _Reader(statement)
    if (found := _parsed(reader, constraints)) is not None:
        reader.end()
    return found


def _parsed(reader: _Reader, constraints: bool) -> OwnStatement | None:
    for words, read in {"OPTIMIZE": _optimize, "REORG": _reorg, "VACUUM": _vacuum, "RESTORE": _restore, "CONVERT TO DELTA": _convert}.items():
        if reader.take(*words.split()):
            return read(reader)
    for kind in ("HISTORY", "DETAIL"):
        if reader.take("DESC", kind) or reader.take("DESCRIBE", kind):
            return _described(reader, kind)
    if reader.take("GENERATE"):
        mode = reader.next("word", "symlink_format_manifest")
        reader.need("FOR", "TABLE")
        return OwnStatement("GENERATE", reader.name(), {"mode": mode.lower()})
    if reader.take("ALTER", "TABLE"):
        return (_constraint(reader) if constraints else None) or _altered(reader)
    if _CLONE.match(reader.words):
        return _clone(reader)
    if _DEEP_CLONE.match(reader.words):
        raise _missing("DEEP CLONE", "use SHALLOW CLONE or CREATE TABLE ... AS SELECT")
    return None


def _clone(reader: _Reader) -> OwnStatement:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] or REPLACE TABLE target SHALLOW CLONE source [time] [TBLPROPERTIES (...)] [LOCATION 'path']."""
    creates = reader.take("CREATE")
    values: dict[str, object] = {"mode": ("createOrReplace" if reader.take("OR", "REPLACE") else "create") if creates else "replace"}
    reader.take("REPLACE")
    reader.need("TABLE")
    if values["mode"] == "create" and reader.take("IF", "NOT", "EXISTS"):
        values["mode"] = "createIfNotExists"
    table = reader.name()
    reader.need("SHALLOW", "CLONE")
    values["source"] = reader.name()
    if reader.take("VERSION", "AS", "OF"):
        values["version"] = reader.whole_number()
    elif reader.take("TIMESTAMP", "AS", "OF"):
        values["timestamp"] = reader.string()
    if reader.take("TBLPROPERTIES"):
        values["properties"] = _properties(reader)
    if reader.take("LOCATION"):
        values["location"] = reader.string()
    return OwnStatement("CLONE", table, values)


def _properties(reader: _Reader) -> dict[str, str]:
    """Keys and values in parentheses."""
    out: dict[str, str] = {}
    reader.need("(")
    while True:
        key = reader.string() if reader.kind == "text" else ".".join(reader.name())
        reader.take("=")
        out[key] = reader.string() if reader.kind == "text" else reader.number()
        if not reader.take(","):
            reader.need(")")
            return out


def _optimize(reader: _Reader) -> OwnStatement:
    table = reader.name()
    values: dict[str, object] = {}
    if reader.take("FULL"):
        values["full"] = True
    if reader.take("WHERE"):
        values["where"] = reader.until("ZORDER")
    if reader.take("ZORDER", "BY"):
        inside = reader.take("(")
        columns = [reader.name()]
        while reader.take(","):
            columns.append(reader.name())
        if inside:
            reader.need(")")
        values["z_order"] = [dotted(c) for c in columns]
    return OwnStatement("OPTIMIZE", table, values)


def _reorg(reader: _Reader) -> OwnStatement:
    reader.need("TABLE")
    table = reader.name()
    values: dict[str, object] = {"where": reader.until("APPLY")} if reader.take("WHERE") else {}
    reader.need("APPLY", "(")
    if not reader.take("PURGE"):
        raise _missing("REORG TABLE ... APPLY (UPGRADE ...)", "only PURGE can be applied")
    reader.need(")")
    return OwnStatement("REORG", table, values)


def _vacuum(reader: _Reader) -> OwnStatement:
    """VACUUM table, and in any order RETAIN n HOURS, DRY RUN, LITE or FULL, USING INVENTORY table or (query)."""
    table = reader.name()
    values: dict[str, object] = {}
    while reader.at < len(reader.tokens):
        if reader.take("USING", "INVENTORY"):
            option: tuple[str, object] = ("inventory", reader.inside("a query") if reader.ahead("(") else reader.name())
        elif reader.take("RETAIN"):
            option = ("hours", reader.hours())
            reader.need("HOURS")
        elif reader.take("DRY", "RUN"):
            option = ("dry_run", True)
        elif reader.ahead("LITE") or reader.ahead("FULL"):
            option = ("lite", reader.ahead("LITE"))
            reader.at += 1
        else:
            reader.end()
        if option[0] in values:
            text = f"VACUUM says twice how it is to be done: {reader.source.strip()}"
            raise InvalidInput(text, condition=named("PARSE_SYNTAX_ERROR", error="'VACUUM'", hint=""))
        values.update([option])
    if values.get("lite") and "inventory" in values:
        raise InvalidInput("VACUUM LITE goes by the log alone: leave USING INVENTORY out", condition=named("PARSE_SYNTAX_ERROR", error="'INVENTORY'", hint=""))
    return OwnStatement("VACUUM", table, values)


def _restore(reader: _Reader) -> OwnStatement:
    reader.take("TABLE")
    table = reader.name()
    reader.take("TO")
    if reader.take("TIMESTAMP", "AS", "OF"):
        return OwnStatement("RESTORE", table, {"timestamp": reader.string()})
    if not reader.take("VERSION", "AS", "OF"):
        raise reader.wrong("VERSION AS OF or TIMESTAMP AS OF")
    return OwnStatement("RESTORE", table, {"version": reader.whole_number()})


def _described(reader: _Reader, kind: str) -> OwnStatement:
    reader.take("TABLE")
    table = reader.name()
    values: dict[str, object] = {}
    if kind == "HISTORY" and reader.take("LIMIT"):
        values["limit"] = reader.whole_number()
    return OwnStatement(kind, table, values)


def _altered(reader: _Reader) -> OwnStatement | None:
    """ALTER TABLE table ALTER [COLUMN] column SYNC IDENTITY, and DROP FEATURE name [TRUNCATE HISTORY]; None for every other ALTER TABLE."""
    if reader.words.endswith(" SYNC IDENTITY"):
        return _sync_identity(reader)
    if " DROP FEATURE " not in f"{reader.words} ":
        return None
    table = reader.name()
    reader.need("DROP", "FEATURE")
    feature = reader.string() if reader.kind == "text" else ".".join(reader.name())
    truncate = reader.take("TRUNCATE", "HISTORY")
    return OwnStatement("DROP FEATURE", table, {"feature": feature, "truncate": truncate})


def _constraint(reader: _Reader) -> OwnStatement | None:
    """ALTER TABLE table ADD CONSTRAINT name CHECK (condition), and DROP CONSTRAINT [IF EXISTS] name; None, with nothing read, for every other ALTER TABLE."""
    start, table = reader.at, reader.name()
    if reader.take("ADD", "CONSTRAINT"):
        values: dict[str, object] = {"name": reader.part()}
        reader.need("CHECK")
        values["condition"] = reader.inside("a condition")
        return OwnStatement("ADD CONSTRAINT", table, values)
    if reader.take("DROP", "CONSTRAINT"):
        if_exists = reader.take("IF", "EXISTS")
        return OwnStatement("DROP CONSTRAINT", table, {"name": reader.part(), "if_exists": if_exists})
    reader.at = start
    return None


def _sync_identity(reader: _Reader) -> OwnStatement:
    table = reader.name()
    if not reader.take("ALTER"):
        reader.need("CHANGE")
    reader.take("COLUMN")
    column = reader.name()
    if len(column) != 1:
        raise reader.wrong("the name of a column")
    reader.need("SYNC", "IDENTITY")
    return OwnStatement("SYNC IDENTITY", table, {"column": column[0]})


def _convert(reader: _Reader) -> OwnStatement:
    table = reader.name()
    values: dict[str, object] = {}
    if reader.take("NO", "STATISTICS"):
        values["no_statistics"] = True
    if reader.take("PARTITIONED", "BY"):
        values["partitions"] = reader.inside("columns")
    return OwnStatement("CONVERT", table, values)


def _missing(statement: str, instead: str) -> UnsupportedFeature:
    return UnsupportedFeature(f"This version of Rowlock has no {statement}: {instead}", feature=statement, access="write")
