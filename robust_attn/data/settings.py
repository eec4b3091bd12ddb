"""Where the input of a layer comes from: one small class per source, which is also what the command line sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robust_attn.settings import Settings, required, setting


@dataclass(frozen=True)
class Prose(Settings):
    """English technical prose: the documentation topics that every Python ships."""

    name: ClassVar[str] = "prose"


@dataclass(frozen=True)
class TextFile(Settings):
    """The text of a file."""

    path: str = required("a UTF-8 text file")
    name: ClassVar[str] = "text"


@dataclass(frozen=True)
class HubText(Settings):
    """A text column of a Hugging Face data set."""

    dataset: str = setting("fancyzhx/ag_news", "the name of the data set")
    split: str = setting("test", "the name of one of its splits")
    column: str = setting("text", "the name of the column with the text")
    name: ClassVar[str] = "hub"


@dataclass(frozen=True)
class Gaussian(Settings):
    """Normal points, put at the layer directly."""

    scale: float = setting(1.0, "their standard deviation", above=0)
    name: ClassVar[str] = "gaussian"


@dataclass(frozen=True)
class Sphere(Settings):
    """Points uniform on a sphere, put at the layer directly."""

    radius: float | None = setting(None, "its radius, null for that of the layer's normalisation", above=0)
    name: ClassVar[str] = "sphere"


@dataclass(frozen=True)
class Digits(Settings):
    """Handwritten digits that scikit-learn ships, for models that read images."""

    name: ClassVar[str] = "digits"


@dataclass(frozen=True)
class ImageFolder(Settings):
    """The images in a folder, for models that read images."""

    path: str = required("a folder of images")
    name: ClassVar[str] = "images"


SOURCES: tuple[type[Settings], ...] = (Prose, TextFile, HubText, Gaussian, Sphere, Digits, ImageFolder)
