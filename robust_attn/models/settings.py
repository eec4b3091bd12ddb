"""What the command line sets about a model: the same for every name of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from robust_attn.models.catalog import ModelSpec
from robust_attn.settings import Settings, setting


@dataclass(frozen=True)
class ModelSettings(Settings):
    """Which weights a model has, and how it reads text. `reads` is the data that it brings where that is no text."""

    weights: str = setting("auto", "auto, random, pretrained or a folder")
    tokenizer: str | None = setting(None, "a folder with a tokenizer, null for that of the weights")
    sizes: Mapping[str, Any] | None = setting(
        None, "sizes of a model with random weights", form="names with values, such as {hidden_size:64}"
    )
    reads: ClassVar[str | None] = None


def choice_of(spec: ModelSpec) -> type[ModelSettings]:
    """The choice of one model of the catalog."""
    facts = {"name": spec.name, "reads": spec.data, "__doc__": spec.summary, "__module__": __name__}
    return type(spec.name, (ModelSettings,), facts)
