"""Pixel batches in [-1, 1] for image models; which images are taken depends on nothing but how many are asked for."""

from __future__ import annotations

from pathlib import Path

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


def image_folder(
    path: Path, samples: int, shape: tuple[int, int, int]
) -> Float[Tensor, "samples channels height width"]:
    """Images of a folder in alphabetical order, spread evenly, resized to the shape without keeping their aspect."""
    try:
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise UserError(f"the folder of images {path} cannot be read: {error.strerror or error}") from error
    chosen = [files[index] for index in _spread(samples, len(files), f"images in {path}")]
    return torch.stack([_read(file, shape) for file in chosen])


def _spread(samples: int, available: int, what: str) -> list[int]:
    if not 1 <= samples <= available:
        raise UserError(f"there are {available} {what}, but {samples} samples were asked for")
    return [sample * available // samples for sample in range(samples)]


def _read(file: Path, shape: tuple[int, int, int]) -> Float[Tensor, "channels height width"]:
    from PIL import Image

    channels, height, width = shape
    if channels not in MODES:
        raise UserError(f"images have 1 or 3 channels, but the model wants {channels}")
    try:
        with Image.open(file) as image:
            resized = image.convert(MODES[channels]).resize((width, height), Image.Resampling.BICUBIC)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{file} is not a readable image: {error}") from error
    pixels = torch.from_numpy(np.asarray(resized, dtype=np.float32)) / 127.5 - 1
    return pixels.reshape(height, width, channels).permute(2, 0, 1)
