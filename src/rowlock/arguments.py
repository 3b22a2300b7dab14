"""Checks of what a caller passes, before anything is planned: what is wrong is a WrongType or an InvalidInput whose text names the argument.

Where `delta.tables` raises TypeError, WrongType is raised, which is one.  What needs Spark's classes is in `api.expressions`.
"""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from rowlock.conditions import named
from rowlock.display import nearest
from rowlock.exceptions import InvalidInput, SettingWarning, UnsupportedFeature, WrongType
from rowlock.time_zones import zone_of

T = TypeVar("T")


def text(value: Any, name: str) -> str:
    """The value, if it is a string that UTF-8 can hold, as the log does.  Raises WrongType, InvalidInput."""
    if not isinstance(value, str):
        raise WrongType(f"{name} needs to be a string but got '{type(value)}'")
    try:
        value.encode()
    except UnicodeEncodeError as e:
        raise InvalidInput(f"{name} holds {value[e.start]!r} at character {e.start}, half of a pair of surrogates, which no text of a log can hold") from e
    return value


def time_zone(value: Any, name: str) -> str:
    """The value, if it is a time zone as Spark's sessions take it: the name of one, or an offset.  Raises WrongType, InvalidInput."""
    known = text(value, name)
    try:
        zone_of(known)
    except ValueError as e:
        raise InvalidInput(f"{name} is {value!r}, which is no time zone that is known here: write it like Europe/Vienna, UTC or +02:00") from e
    return known


def path(value: Any, name: str) -> Any:
    """The value, if it is a string or a path.  Raises WrongType."""
    if not isinstance(value, (str, os.PathLike)):
        raise WrongType(f"{name} needs to be a string or a path but got '{type(value)}'")
    return value


def number(value: Any, name: str, table: str | None = None) -> int:
    """The value as an int, if it is a whole number (NumPy's are), and no bool.  Raises WrongType."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise WrongType(f"{name} needs to be an int but got '{type(value)}'", table=table)


def optional(check: Callable[[Any, str], T], value: Any, name: str) -> T | None:
    """The value as one of these checks returns it; None stays None.  Raises what the check raises."""
    return None if value is None else check(value, name)


def optional_portion(value: Any, name: str, table: str | None = None) -> int | None:
    """The value as an int of 0 or more; None stays None.  Raises WrongType, InvalidInput."""
    if value is None:
        return None
    if (found := number(value, name, table)) < 0:
        raise InvalidInput(f"{name} is a number of 1 or more, or 0 for no limit, not {found}", table=table)
    return found


def is_set(spark: Any, name: str, *, otherwise: bool = False) -> bool:
    """Whether a setting of a session is true; `otherwise` where it has none."""
    return str(spark.conf.get(name, str(otherwise))).lower() == "true"


def flag(value: Any, name: str) -> bool:
    """The value, if it is a bool.  Raises WrongType."""
    if not isinstance(value, bool):
        raise WrongType(f"{name} needs to be a boolean but got '{type(value)}'")
    return value


def real(value: Any, name: str, unit: str) -> float:
    """The value, if it is an int or a float.  Raises WrongType."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType(f"{name} needs to be a number of {unit} but got '{type(value)}'")
    return value


def function(value: Any, name: str) -> Callable[..., Any]:
    """The value, if it can be called.  Raises WrongType."""
    if not callable(value):
        raise WrongType(f"{name} needs to be a function but got '{type(value)}'")
    return value  # type: ignore[no-any-return]


def names(cols: Sequence[Any], name: str) -> list[str]:
    """Column names given one by one or as one list.  Raises WrongType."""
    flat = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
    return [text(c, name) for c in flat]


def name_list(value: Any, name: str, table: str | None = None) -> list[str]:
    """A list of names, which is not a single string.  Raises WrongType."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise WrongType(f"{name} is a list of names, not {value!r}", table=table)
    listed = list(value)
    if wrong := [n for n in listed if not isinstance(n, str)]:
        raise WrongType(f"{name} is a list of names, and {wrong[0]!r} is none", table=table)
    return listed


def one_or_more_names(value: Any, name: str) -> list[str]:
    """The names in an argument that takes one, several or None.  Raises WrongType."""
    return [] if value is None else [value] if isinstance(value, str) else name_list(value, name)


def text_by_text(value: Any, name: str) -> dict[str, str]:
    """A mapping of text to text; None is an empty one.  Raises WrongType, which shows no value: one may be a secret."""
    return {key: text(held, f"{name}: the value of {key!r}") for key, held in _by_text(value, name, True).items()}


def properties(value: Any, name: str, *, optional: bool = True) -> dict[str, str]:
    """Table properties by name; numbers and bools are written as lower-case text.  None is no property, where it is allowed.  Raises WrongType."""
    out = {}
    for key, held in _by_text(value, name, optional).items():
        if not isinstance(held, (str, bool, int, float)):
            raise WrongType(f"{name}: the value of {key!r} needs to be a string, a number or a boolean but got '{type(held)}'")
        out[key] = held if isinstance(held, str) else str(held).lower()
    return out


def _by_text(value: Any, name: str, optional: bool) -> Mapping[str, Any]:
    """The value, if it is a mapping whose keys are text; an empty one for None, where that is allowed.  Raises WrongType."""
    if value is None and optional:
        return {}
    if not isinstance(value, Mapping):
        raise WrongType(f"{name} needs to be a dict but got '{type(value)}'")
    if wrong := [key for key in value if not isinstance(key, str)]:
        raise WrongType(f"Keys of dict in {name} must contain only strings, not '{type(wrong[0])}'")
    return value


def sql_values(value: Any, name: str) -> dict[str, Any] | list[Any] | None:
    """The values of a statement's parameters: a mapping by name, a list by position, or None.  Raises WrongType."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return dict(_by_text(value, name, False))
    if isinstance(value, (list, tuple)):
        return list(value)
    raise WrongType(f"{name} needs to be a dict or a list but got '{type(value)}'")


def one_of(value: Any, name: str, allowed: Sequence[str], table: str | None = None) -> str:
    """The value, if it is one of those that are allowed.  Raises InvalidInput, which names them."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(f"{name} {value!r} is not one of {', '.join(allowed)}", table=table)
    return value


_warned: set[str] = set()


def pass_over(names: Iterable[str], known: Sequence[str], of: str, access: Literal["read", "write"], table: str) -> None:
    """Names options that are none of the `known` ones in warnings, once in a process: as with delta-spark they have no effect.

    Raises UnsupportedFeature for a name that is like a known one, which is meant, and for Hadoop's, which say with whose keys to reach the store.
    """
    for name in names:
        meant = nearest(name, known)
        if meant or name.lower().startswith(("fs.", "dfs.")):
            instead = f"did you mean {meant}?" if meant else f"set spark.hadoop.{name} in the session."
            text = f"The option {name} of a {of} is refused: Rowlock has none of this name; {instead} It knows {', '.join(known)}"
            raise UnsupportedFeature(text, feature=f"option {name} of a {of}", access=access, table=table)
        warn_once(f"The option {name} of a {of} has no effect on a Delta table")


def option_is_true(name: str, value: str, table: str) -> bool:
    """The value of an option that is true or false.  Raises InvalidInput."""
    if value.strip().lower() not in ("true", "false"):
        raise illegal_option(name, value, "must be 'true' or 'false'", table)
    return value.strip().lower() == "true"


def illegal_option(name: str, value: str, explain: str, table: str) -> InvalidInput:
    """The error for a value that an option cannot have; `explain` is a phrase that says what it must be."""
    condition = named("DELTA_ILLEGAL_OPTION", input=value, name=name, explain=explain)
    return InvalidInput(f"The option {name} {explain}, not {value!r}", table=table, condition=condition)


def warn_once(text: str, key: str = "") -> None:
    """Warns, once in a process for a key, by default the text, of what has no effect."""
    if (key or text) not in _warned:
        _warned.add(key or text)
        warnings.warn(text, SettingWarning, stacklevel=3)
