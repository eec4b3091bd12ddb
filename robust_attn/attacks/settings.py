"""What every attack can be told: names, defaults and limits, written once. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from robust_attn.attacks.torchattacks_table import checked_name
from robust_attn.settings import Settings, setting
from robust_attn.types import FieldError, UserError

SMALLEST_MASS = 1e-10
"""The lightest sliver unless another is asked for: it stands for a token in ten thousand million."""
LEAST_CONTEXT = 8192
"""The context that is meant where none is given, or a model has a shorter one."""
MODEL = "model"
ALL = "all"
STEPS = "gradient steps at most; an ascent that stalls ends sooner"
RESTARTS = "random starts beside the informed ones"


class Masses(StrEnum):
    """EQUAL: a token becomes `copies` atoms of equal mass. SLIVER: a small mass is given up, as much as pays.

    BEST: the stronger of the two; equal pieces alone where slivers make no sense.
    """

    BEST = "best"
    EQUAL = "equal"
    SLIVER = "sliver"


@dataclass(frozen=True)
class MoveSettings(Settings):
    """Projected ascent."""

    name: ClassVar[str] = "move"
    implementation: ClassVar[str | None] = "robust_attn.attacks.move:Move"
    steps: int = setting(80, STEPS, least=0)
    restarts: int = setting(1, RESTARTS, least=0)


@dataclass(frozen=True)
class MassSplitSettings(Settings):
    """Tokens written as several atoms first, then projected ascent."""

    name: ClassVar[str] = "mass_split"
    implementation: ClassVar[str | None] = "robust_attn.attacks.mass_split:MassSplit"
    copies: int = setting(2, "pieces that a token is split into", least=1)
    steps: int = setting(80, STEPS, least=0)
    restarts: int = setting(1, RESTARTS, least=0)
    tokens: int | str | None = setting(
        ALL, "how many tokens are split, the most influential ones", least=1, words=(ALL,)
    )
    masses: str = setting(
        "best", "the pieces of a token: of equal mass, one small one sent far, or the stronger", words=tuple(Masses)
    )
    context: float | str = setting(
        MODEL, "no piece is lighter than 1 / context; by default the model's, at least 8192", least=2, words=(MODEL,)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.tokens, float):
            raise FieldError("tokens", f"must be all or a whole number, got {self.tokens}.")
        if self.slivers and (self.copies != 2 or self.some_tokens is not None):
            raise UserError("A sliver is one piece of one token: leave copies at 2 and tokens at all.")

    @property
    def slivers(self) -> bool:
        """Whether the pieces have unequal masses."""
        return self.masses == Masses.SLIVER

    @property
    def tries_slivers(self) -> bool:
        """Whether slivers are among what is tried in a Wasserstein budget: they are pieces of one token each."""
        return self.slivers or (self.masses == Masses.BEST and self.copies == 2 and self.some_tokens is None)

    @property
    def context_length(self) -> float:
        """Of how many tokens one is the lightest piece; where the model should say, the least that is meant."""
        return LEAST_CONTEXT if isinstance(self.context, str) else float(self.context)

    @property
    def lightest(self) -> float:
        """No piece is lighter."""
        return 1 / self.context_length

    @property
    def some_tokens(self) -> int | None:
        """How many tokens are split, None for all of them."""
        return self.tokens if isinstance(self.tokens, int) else None


@dataclass(frozen=True)
class DuplicateSettings(Settings):
    """A token inserted again."""

    name: ClassVar[str] = "duplicate"
    implementation: ClassVar[str | None] = "robust_attn.attacks.duplicate:Duplicate"
    repeats: int = setting(1, "insertions of one token at most", least=1)


@dataclass(frozen=True)
class LinearSettings(Settings):
    """The top singular direction."""

    name: ClassVar[str] = "linear"
    implementation: ClassVar[str | None] = "robust_attn.attacks.move:Linear"


@dataclass(frozen=True)
class RandomSettings(Settings):
    """The best of some random displacements."""

    name: ClassVar[str] = "random"
    implementation: ClassVar[str | None] = "robust_attn.attacks.baseline:RandomMove"
    trials: int = setting(16, "random displacements tried", least=1)


@dataclass(frozen=True)
class NoAttackSettings(Settings):
    """Nothing is moved."""

    name: ClassVar[str] = "none"
    implementation: ClassVar[str | None] = "robust_attn.attacks.baseline:NoAttack"


@dataclass(frozen=True)
class TorchattacksSettings(Settings):
    """An attack of torchattacks by the name of its class."""

    implementation: ClassVar[str | None] = "robust_attn.attacks.torchattacks_bridge:Torchattack"
    name: str = setting("PGDL2", "the class in torchattacks")  # type: ignore[misc]  # its own: torchattacks has many
    steps: int = setting(30, "its number of steps", least=0)
    step_size: float = setting(0.25, "its alpha as a share of its eps", above=0)
    suite: str = setting("torchattacks", "where the class is from", words=("torchattacks",))

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_name(self.name)


ATTACKS: Mapping[str, type[Settings]] = {
    **{
        kind.name: kind for kind in (MoveSettings, MassSplitSettings, DuplicateSettings, LinearSettings, RandomSettings)
    },
    "torchattacks": TorchattacksSettings,
    NoAttackSettings.name: NoAttackSettings,
}
"""Every attack by the word that chooses it."""
