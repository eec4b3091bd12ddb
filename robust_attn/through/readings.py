"""What a classifier reads, one input at a time: with the row it comes from and the label that the data give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int, Shaped
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Reading:
    """Token ids [1, n] or pixels [1, channels, height, width]."""

    batch: Shaped[Tensor, "1 ..."]
    row: int | None = None
    label: int | None = None

    @property
    def ids(self) -> Int[Tensor, " n"] | None:
        """The token ids, None for an image."""
        return None if self.batch.is_floating_point() else self.batch[0]


def readings(batch: Shaped[Tensor, "samples ..."], labels: Sequence[int] | None = None) -> list[Reading]:
    """The samples of a batch, one by one."""
    return [Reading(batch[k : k + 1], label=None if labels is None else labels[k]) for k in range(len(batch))]
