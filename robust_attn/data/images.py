"""Pixel batches for image models; which images are taken depends on nothing but how many are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from robust_attn.models.digits import HELD_OUT, digit_images
from robust_attn.types import UserError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
MODES = {1: "L", 3: "RGB"}


def digits(samples: int, shape: tuple[int, int, int]) -> Float[Tensor, "samples channels height width"]:
    """scikit-learn's digits that were held out of training, spread evenly, enlarged to the shape where it is larger."""
    images, _ = digit_images()
    chosen = images[-HELD_OUT:][_spread(samples, HELD_OUT, "held-out digits")]
    channels, height, width = shape
    if (height, width) != tuple(chosen.shape[-2:]):
        chosen = functional.interpolate(chosen, size=(height, width), mode="bilinear", align_corners=False)
    return chosen.expand(-1, channels, -1, -1).contiguous()


def digit_labels(samples: int) -> list[int]:
    """What the same digits show."""
    _, labels = digit_images()
    return [int(labels[-HELD_OUT:][index]) for index in _spread(samples, HELD_OUT, "held-out digits")]


@dataclass(frozen=True)
class Picture:
    """A file with an image, its number among those of its folder, and its label: the sub-folder that it is in."""

    index: int
    file: Path
    label: str | None = None


def pictures(path: Path, samples: int) -> list[Picture]:
    """Images of a folder in alphabetical order, spread evenly; of its sub-folders where it has none of its own."""
    found = [Picture(index, file) for index, file in enumerate(_images(path))]
    if not found:
        within = [(file, folder.name) for folder in _entries(path) if folder.is_dir() for file in _images(folder)]
        found = [Picture(index, file, label) for index, (file, label) in enumerate(within)]
    return [found[index] for index in _spread(samples, len(found), f"images in {path}")]


def pixels(
    chosen: Sequence[Picture], shape: tuple[int, int, int], processor: Any | None = None
) -> Float[Tensor, "samples channels height width"]:
    """Pixel values as the model's image processor makes them; without one in [-1, 1], resized without their aspect."""
    if processor is None:
        return torch.stack([_read(picture.file, shape) for picture in chosen])
    return torch.stack([_processed(picture.file, shape, processor) for picture in chosen])


def image_folder(
    path: Path, samples: int, shape: tuple[int, int, int]
) -> Float[Tensor, "samples channels height width"]:
    """The pixels of `pictures` for a model without an image processor."""
    return pixels(pictures(path, samples), shape)


def _images(path: Path) -> list[Path]:
    return [file for file in _entries(path) if file.suffix.lower() in SUFFIXES]


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError as error:
        raise UserError(f"the folder of images {path} cannot be read: {error.strerror or error}") from error


def _spread(samples: int, available: int, what: str) -> list[int]:
    if not 1 <= samples <= available:
        raise UserError(f"there are {available} {what}, but {samples} samples were asked for")
    return [sample * available // samples for sample in range(samples)]


def _read(file: Path, shape: tuple[int, int, int]) -> Float[Tensor, "channels height width"]:
    from PIL import Image

    channels, height, width = shape
    resized = _image(file, channels).resize((width, height), Image.Resampling.BICUBIC)
    values = torch.from_numpy(np.asarray(resized, dtype=np.float32)) / 127.5 - 1
    return values.reshape(height, width, channels).permute(2, 0, 1)


def _processed(file: Path, shape: tuple[int, int, int], processor: Any) -> Float[Tensor, "channels height width"]:
    values: Tensor = processor(_image(file, shape[0]), return_tensors="pt")["pixel_values"][0]
    if tuple(values.shape) != shape:
        raise UserError(f"the image processor makes pixels {tuple(values.shape)}, but the model wants {shape}")
    return values


def _image(file: Path, channels: int) -> Any:
    from PIL import Image

    if channels not in MODES:
        raise UserError(f"images have 1 or 3 channels, but the model wants {channels}")
    try:
        with Image.open(file) as image:
            return image.convert(MODES[channels])
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{file} is not a readable image: {error}") from error
