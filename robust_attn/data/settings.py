"""Where the input of a layer comes from: one small class per source, which is also what the command line sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from robust_attn.settings import Settings, required, setting


def special_tokens() -> Any:
    """Whether texts begin and end with the special tokens that the tokenizer adds by itself, as in training."""
    return setting(True, "read each text with the special tokens that the tokenizer adds by itself")


@dataclass(frozen=True)
class Prose(Settings):
    """Running English: paragraphs of documentation that Python and two packages ship."""

    special_tokens: bool = special_tokens()
    name: ClassVar[str] = "prose"


@dataclass(frozen=True)
class TextFile(Settings):
    """The text of a file, cut into samples; or files by a pattern, one sample each."""

    path: str = required("a UTF-8 text file, or a pattern such as texts/*.txt")
    special_tokens: bool = special_tokens()
    name: ClassVar[str] = "text"


@dataclass(frozen=True)
class Rows(Settings):
    """Your own rows, one sample each: CSV, TSV, JSONL, Parquet, or a folder that datasets saved."""

    path: str = required("a file that is a table, .csv, .tsv, .jsonl, .ndjson or .parquet, or a folder of save_to_disk")
    text: str = setting("text", "the name of the column with the text")
    label: str | None = setting(None, "the name of the column with the label, null for none")
    first: int = setting(0, "number of the first row that is taken, from 0", least=0)
    special_tokens: bool = special_tokens()
    name: ClassVar[str] = "rows"


@dataclass(frozen=True)
class HubText(Settings):
    """A text column of a Hugging Face data set."""

    dataset: str = setting("fancyzhx/ag_news", "the name of the data set")
    split: str = setting("test", "the name of one of its splits")
    column: str = setting("text", "the name of the column with the text")
    special_tokens: bool = special_tokens()
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
    """The images in a folder, for models that read images; sub-folders are labels."""

    path: str = required("a folder of images, or of one folder of images for every label")
    name: ClassVar[str] = "images"


SOURCES: tuple[type[Settings], ...] = (Prose, TextFile, Rows, HubText, Gaussian, Sphere, Digits, ImageFolder)
