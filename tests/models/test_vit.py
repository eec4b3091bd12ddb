from __future__ import annotations

import pytest
import torch

from robust_attn.models import load_model
from robust_attn.types import UserError


def test_an_image_becomes_a_class_token_and_one_token_per_patch(small_sizes):
    model = load_model("vit", "random", sizes={**small_sizes["vit"], "image_size": 12, "patch_size": 4})
    assert model.takes_images
    assert model.image_shape == (1, 12, 12)
    assert model.max_tokens == 10
    measure = model.inputs_at([1], torch.zeros(2, 1, 12, 12))[1]
    assert measure.points.shape == (2, 10, 48)


def test_text_and_images_of_another_shape_are_refused(small_sizes):
    model = load_model("vit", "random", sizes=small_sizes["vit"])
    with pytest.raises(UserError, match="reads images"):
        model.encode("text")
    with pytest.raises(UserError, match=r"shape \(1, 8, 8\)"):
        model.inputs_at([0], torch.zeros(1, 3, 8, 8))
    with pytest.raises(UserError, match="reads images"):
        model.inputs_at([0], torch.zeros(1, 9, dtype=torch.int64))
