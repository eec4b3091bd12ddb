"""What the command line sets about an attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robust_attn.attacks.torchattacks_table import checked_name
from robust_attn.settings import Settings, setting

_STEPS = "steps of the ascent"
_RESTARTS = "random starts beside the informed ones"


@dataclass(frozen=True)
class MoveSettings(Settings):
    """Projected ascent: every token moves, none is split."""

    steps: int = setting(80, _STEPS, least=0)
    restarts: int = setting(1, _RESTARTS, least=0)
    name: ClassVar[str] = "move"
    implementation: ClassVar[str | None] = "robust_attn.attacks.move:Move"


@dataclass(frozen=True)
class MassSplitSettings(Settings):
    """Tokens written as several atoms that share their mass, then ascent."""

    copies: int = setting(2, "atoms per token", least=1)
    steps: int = setting(80, _STEPS, least=0)
    restarts: int = setting(1, _RESTARTS, least=0)
    tokens: int | str = setting("all", "how many tokens are split", words=("all",), least=1, whole=True)
    masses: str = setting("equal", "how a token's mass is shared", words=("equal", "sliver"))
    lightest: float = setting(1e-10, "no sliver is lighter", above=0, below=1)
    name: ClassVar[str] = "mass_split"
    implementation: ClassVar[str | None] = "robust_attn.build:mass_split_from"


@dataclass(frozen=True)
class DuplicateSettings(Settings):
    """A token inserted again, as somebody who types can."""

    repeats: int = setting(1, "how often at most", least=1)
    name: ClassVar[str] = "duplicate"
    implementation: ClassVar[str | None] = "robust_attn.attacks.duplicate:Duplicate"


@dataclass(frozen=True)
class LinearSettings(Settings):
    """The top singular direction of the layer's derivative."""

    name: ClassVar[str] = "linear"
    implementation: ClassVar[str | None] = "robust_attn.attacks.move:Linear"


@dataclass(frozen=True)
class RandomSettings(Settings):
    """The best of some random displacements."""

    trials: int = setting(16, "how many", least=1)
    name: ClassVar[str] = "random"
    implementation: ClassVar[str | None] = "robust_attn.attacks.baseline:RandomMove"


@dataclass(frozen=True)
class TorchattacksSettings(Settings):
    """An attack of torchattacks."""

    name: str = setting("PGDL2", "its class; a wrong one lists those that suit")  # type: ignore[misc]
    steps: int = setting(30, "its steps", least=0)
    step_size: float = setting(0.25, "its alpha, as a part of its eps", above=0)
    suite: ClassVar[str | None] = "torchattacks"
    implementation: ClassVar[str | None] = "robust_attn.attacks.torchattacks_bridge:Torchattack"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_name(self.name)


@dataclass(frozen=True)
class NoAttackSettings(Settings):
    """No attack."""

    name: ClassVar[str] = "none"
    implementation: ClassVar[str | None] = "robust_attn.attacks.baseline:NoAttack"


ATTACKS: tuple[type[Settings], ...] = (
    MoveSettings,
    MassSplitSettings,
    DuplicateSettings,
    LinearSettings,
    RandomSettings,
    TorchattacksSettings,
    NoAttackSettings,
)
