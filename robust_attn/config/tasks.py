"""What is done, and what each task can be told; the values are those that the published tables use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from robust_attn.settings import Settings, listed, setting
from robust_attn.types import FieldError

Matrix = tuple[tuple[float, ...], ...]
DTYPES = ("float64", "float32", "bfloat16")
_A = "the matrix of the head"
_SQUARE = "a square matrix given by its rows, such as [[-1,0],[0,0.5]]"
_STEPS = "steps of the search"
_RESTARTS = "random starts of the search"


class TaskSettings(Settings):
    """A task. `dtypes` are the precisions that a model may have in it."""

    dtypes: ClassVar[tuple[str, ...]] = DTYPES


@dataclass(frozen=True)
class AttackTask(TaskSettings):
    """Attack every layer, certify it, compare the two."""

    name: ClassVar[str] = "attack"


@dataclass(frozen=True)
class CertifyTask(TaskSettings):
    """Certificates of every layer, no attack."""

    heads: bool = setting(True, "certificates of every head too")
    tolerance: float | None = setting(None, "also the largest radius that keeps the output change below it", above=0)
    name: ClassVar[str] = "certify"


@dataclass(frozen=True)
class LipschitzTask(TaskSettings):
    """Local Lipschitz constant against the number of tokens."""

    lengths: tuple[int, ...] = setting([2, 4, 8, 16, 32, 64], "numbers of tokens", least=1)
    windows: int = setting(10, "windows of text per length", least=1)
    heads: bool = setting(False, "also every head alone")
    radii: tuple[float, ...] = setting([], "radii that the tokens are stretched to", above=0)
    mask: str = setting("model", "what tokens see", words=("model", "none", "causal"))
    name: ClassVar[str] = "lipschitz"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_different(self.lengths)


@dataclass(frozen=True)
class WorstCaseTask(TaskSettings):
    """Search for the tokens in a ball with the largest local Lipschitz constant."""

    radius: float | None = setting(None, "the radius of the ball, null for that of the layer's normalisation", least=0)
    steps: int = setting(60, _STEPS, least=0)
    restarts: int = setting(2, _RESTARTS, least=0)
    masses: bool = setting(False, "search for the masses of the tokens too")
    name: ClassVar[str] = "worst_case"


@dataclass(frozen=True)
class TightnessTask(TaskSettings):
    """Every bound against the radius of the budget."""

    radii: tuple[float, ...] = setting([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1], "radii of the budget", above=0)
    name: ClassVar[str] = "tightness"


@dataclass(frozen=True)
class AdversarialLayerTask(TaskSettings):
    """The paper's adversarial configurations at the model's layers."""

    lengths: tuple[int, ...] = setting([4, 8, 16, 32, 64, 128], "numbers of tokens", least=2)
    radius: float | None = setting(None, "radius of the configurations, null for that of the text's tokens", least=0)
    name: ClassVar[str] = "adversarial_layer"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_different(self.lengths)


@dataclass(frozen=True)
class ThroughModelTask(TaskSettings):
    """Attack a whole classifier, watch every layer, and find the radius of a flip."""

    accuracy: float = setting(0.05, "relative accuracy of that radius", above=0, below=1)
    name: ClassVar[str] = "through_model"
    dtypes: ClassVar[tuple[str, ...]] = ("float64", "float32")


@dataclass(frozen=True)
class RepeatTokensTask(TaskSettings):
    """Repeat tokens of a text, each the best of some that were really read."""

    repeats: int = setting(4, "how many at most", least=1)
    candidates: int = setting(8, "how many are read before one is repeated", least=1)
    name: ClassVar[str] = "repeat_tokens"
    dtypes: ClassVar[tuple[str, ...]] = ("float64", "float32")


@dataclass(frozen=True)
class AdversarialTask(TaskSettings):
    """Adversarial configurations of one head with V = I against the number of tokens."""

    A: Matrix = setting([[-1.0, 0.6], [0.0, 0.5]], _A, form=_SQUARE)
    radius: float = setting(2.5, "radius of the ball", least=0)
    lengths: tuple[int, ...] = setting([2**k for k in range(1, 12)], "numbers of tokens", least=2)
    name: ClassVar[str] = "adversarial"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_square(self.A)
        expect_different(self.lengths)


@dataclass(frozen=True)
class RadiusTask(TaskSettings):
    """The largest constant of one head with V = I on a ball against its radius."""

    A: Matrix = setting([[-1.0, 0.6], [0.0, 0.5]], _A, form=_SQUARE)
    radii: tuple[float, ...] = setting([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0], "radii of the ball", above=0)
    tokens: int = setting(32, "number of tokens", least=3)
    steps: int = setting(60, _STEPS, least=0)
    restarts: int = setting(2, _RESTARTS, least=0)
    name: ClassVar[str] = "radius"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_square(self.A)


@dataclass(frozen=True)
class MeanFieldTask(TaskSettings):
    """From few tokens to many: what a head with V = I attains beside its bounds."""

    A: Matrix = setting([[-1.0]], _A, form=_SQUARE)
    radius: float = setting(math.sqrt(2.0), "radius of the ball", least=0)
    lengths: tuple[int, ...] = setting([2**k for k in range(1, 13)], "numbers of tokens written out", least=2)
    beyond: tuple[int, ...] = setting([10**4, 10**5, 10**6, 10**8], "more, as two weighted atoms", least=2)
    name: ClassVar[str] = "mean_field"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_square(self.A)
        expect_different(self.lengths)


@dataclass(frozen=True)
class MassSplittingTask(TaskSettings):
    """Splitting against moving on the scalar examples of the theory."""

    copies: tuple[int, ...] = setting([1, 2, 3, 4], "atoms per token", least=1)
    radii: tuple[float, ...] = setting([1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0], "radii of the budget", above=0)
    balances: tuple[float, ...] = setting(
        [0.5, 0.2, 0.1, 0.03, 0.01, 1e-3, 1e-4], "masses of the lighter token", above=0, below=1
    )
    slivers: tuple[float, ...] = setting([1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7], "masses sent far", above=0, below=0.5)
    steps: int = setting(60, _STEPS, least=0)
    restarts: int = setting(4, _RESTARTS, least=0)
    name: ClassVar[str] = "mass_splitting"


@dataclass(frozen=True)
class UnbalancedTask(TaskSettings):
    """The steepest measures of few atoms with free masses, for one head with V = I."""

    A: Matrix = setting([[-1.0, 0.0], [0.0, -1.0]], _A, form=_SQUARE)
    atoms: tuple[int, ...] = setting([2, 3, 4], "numbers of atoms", least=2)
    radii: tuple[float, ...] = setting([0.5, 1.0, 1.5, 2.0, 2.5, math.sqrt(8.0)], "radii of the ball", above=0)
    steps: int = setting(150, _STEPS, least=0)
    restarts: int = setting(16, _RESTARTS, least=0)
    name: ClassVar[str] = "unbalanced"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_square(self.A)


@dataclass(frozen=True)
class SoundnessTask(TaskSettings):
    """Try to break certificates on random layers."""

    cases: int | None = setting(200, "how many layers, null for no limit", least=1)
    minutes: float | None = setting(None, "how long, null for no limit", above=0)
    first_seed: int = setting(0, "the seed of the first layer", least=0)
    resume: str | None = setting(None, "the folder of a campaign to go on with")
    replay: str | None = setting(None, "a saved violation to look at again instead")
    name: ClassVar[str] = "soundness"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cases is None and self.minutes is None:
            raise FieldError("cases", "and minutes cannot both be null: the campaign would never end.")


TASKS: tuple[type[Settings], ...] = (
    AttackTask,
    CertifyTask,
    LipschitzTask,
    WorstCaseTask,
    TightnessTask,
    AdversarialLayerTask,
    ThroughModelTask,
    RepeatTokensTask,
    AdversarialTask,
    RadiusTask,
    MeanFieldTask,
    MassSplittingTask,
    UnbalancedTask,
    SoundnessTask,
)


def expect_different(lengths: tuple[int, ...]) -> None:
    """A line needs two points."""
    if len(set(lengths)) < 2:
        raise FieldError("lengths", f"needs at least two different lengths, got {listed(lengths)}.")


def expect_square(rows: Matrix) -> None:
    """As many columns as rows, and at least one."""
    if not rows or any(len(row) != len(rows) for row in rows):
        raise FieldError("A", f"must be {_SQUARE}, got {listed(rows)}.")
