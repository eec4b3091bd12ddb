"""A tiny ViT trained here on the handwritten digits that ship with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from robust_attn.models.quiet import quiet_transformers

LABEL = "trained:digits"
NOTE = "trained here on scikit-learn's 8x8 digits, not pretrained by anybody else"
EPOCHS, BATCH, RATE, SEED, HELD_OUT = 30, 64, 1e-3, 0, 297


def digit_images() -> tuple[Float[Tensor, "samples 1 8 8"], Int[Tensor, " samples"]]:
    """All 1797 digits scaled to [-1, 1] in float32, and what they show."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = torch.tensor(bunch.images, dtype=torch.float32) / 8 - 1
    return pixels[:, None], torch.tensor(bunch.target, dtype=torch.int64)


def train_digits(sizes: Mapping[str, Any], folder: Path) -> None:
    """A ViT classifier of the sizes, trained on all digits but the last HELD_OUT, as safetensors in the folder.

    One thread and a fixed seed: the same machine makes the same weights. The global random state is left alone.
    """
    import transformers

    library: Any = transformers
    images, labels = digit_images()
    with _one_thread(), torch.random.fork_rng(devices=[]), torch.enable_grad(), quiet_transformers():
        torch.default_generator.manual_seed(SEED)
        model = library.ViTForImageClassification(library.ViTConfig(**sizes, num_labels=10))
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        model.train()
        for _ in range(EPOCHS):
            for rows in _batches(len(labels) - HELD_OUT):
                loss: Any = functional.cross_entropy(model(images[rows]).logits, labels[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        model.eval().save_pretrained(folder)


def held_out_accuracy(folder: Path) -> float:
    """The share of held-out digits that the classifier in the folder reads correctly."""
    from transformers import ViTForImageClassification

    images, labels = digit_images()
    with quiet_transformers(), torch.no_grad():
        model: Any = ViTForImageClassification.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
        read = model.eval()(images[-HELD_OUT:]).logits.argmax(-1)
    return float((read == labels[-HELD_OUT:]).double().mean())


def _batches(count: int) -> Iterator[Int[Tensor, " batch"]]:
    order = torch.randperm(count)
    for start in range(0, count, BATCH):
        yield order[start : start + BATCH]


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
