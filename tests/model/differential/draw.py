"""Choices drawn from a seed by their names, so that one can be changed and the others stay: that is how a case shrinks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Draws by name.  The first option of each choice is the simplest; `fixed` names choices that take another option than the seed's, by index."""

    def __init__(self, seed: int, fixed: Mapping[str, int] | None = None, *, at: str = "", taken: dict[str, int] | None = None) -> None:
        self.seed = seed
        self.fixed = fixed or {}
        self.at = at
        self.taken: dict[str, int] = {} if taken is None else taken
        """The choices so far, by name: the index of the option."""

    def within(self, name: str) -> Draw:
        """Draws whose names begin with `name`."""
        return Draw(self.seed, self.fixed, at=f"{self.at}{name}.", taken=self.taken)

    def pick(self, name: str, options: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """One of the options."""
        name = self.at + name
        index = self.fixed.get(name, -1)
        if index < 0:
            index = random.Random(f"{self.seed} {name}").choices(range(len(options)), weights)[0]
        index = min(index, len(options) - 1)
        self.taken[name] = index
        return options[index]

    def maybe(self, name: str, probability: float) -> bool:
        """True as often as `probability` has it; False is the simpler one."""
        return self.pick(name, (False, True), (1 - probability, probability))

    def some(self, name: str, options: Sequence[T], probability: float) -> list[T]:
        """Those of the options that are drawn, each by itself."""
        return [option for n, option in enumerate(options) if self.maybe(f"{name}{n}", probability)]
