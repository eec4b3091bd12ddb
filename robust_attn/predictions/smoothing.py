"""Randomised smoothing (Cohen, Rosenfeld, Kolter 2019): a certificate of the smoothed classifier, not of this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Logits = Callable[[Float[Tensor, "batch n d"]], Float[Tensor, "batch classes"]]


@dataclass(frozen=True)
class Smoothing:
    """Gaussian noise of deviation `sigma`; `selection` noisy inputs guess the class, `samples` others bound its share.

    Both are fixed beforehand, so the bound holds but for `failure_probability` whatever the guess was.
    """

    sigma: float
    samples: int
    selection: int = 64
    failure_probability: float = 1e-3


@dataclass(frozen=True)
class Smoothed:
    """The class of the *smoothed* classifier argmax_c P(f(x + noise) = c) and its radius; None where it abstains.

    Nothing is said about the classifier f itself: f may flip at any radius.
    """

    label: int | None
    radius: float


def randomised_smoothing(
    logits: Logits, points: Float[Tensor, "n d"], smoothing: Smoothing, *, generator: torch.Generator, batch: int = 32
) -> Smoothed:
    """CERTIFY of that paper: sigma Phi^-1(p), p the Clopper-Pearson lower value of the guessed class's share.

    Abstains where p is not above one half.
    """

    def votes(count: int) -> Int[Tensor, " classes"]:
        parts = []
        for start in range(0, count, batch):
            size = (min(batch, count - start), *points.shape)
            noise = torch.randn(size, generator=generator, dtype=points.dtype)
            with torch.no_grad():
                found = logits(points + smoothing.sigma * noise)
            parts.append(torch.bincount(found.argmax(-1), minlength=found.shape[-1]))
        return torch.stack(parts).sum(0)

    label = int(votes(smoothing.selection).argmax())
    hits = int(votes(smoothing.samples)[label])
    lower = clopper_pearson_lower(hits, smoothing.samples, smoothing.failure_probability)
    if not lower > 0.5:
        return Smoothed(None, 0.0)
    return Smoothed(label, smoothing.sigma * _normal_quantile(lower))


def clopper_pearson_lower(hits: int, samples: int, probability: float) -> float:
    """The share at which `samples` draws have at least `hits` hits with exactly that probability; 0 for none."""
    from scipy import stats

    return 0.0 if hits == 0 else float(stats.beta.ppf(probability, hits, samples - hits + 1))


def _normal_quantile(probability: float) -> float:
    """Below it is a standard normal number with that probability."""
    from scipy import stats

    return float(stats.norm.ppf(probability))
