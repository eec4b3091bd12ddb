from __future__ import annotations

import pytest
import torch

from robust_attn.models import digits, load_model
from robust_attn.models.cache import cache_folder
from robust_attn.models.catalog import spec_of


def test_the_digits_are_scaled_to_minus_one_and_one():
    images, labels = digits.digit_images()
    assert images.shape == (1797, 1, 8, 8)
    assert (float(images.min()), float(images.max())) == (-1.0, 1.0)
    assert labels.unique().tolist() == list(range(10))


@pytest.mark.usefixtures("offline")
def test_the_kept_model_reads_held_out_digits():
    """Training rounds otherwise on another processor: 0.89 to 0.96 were seen. A tenth would be chance."""
    model = load_model("vit", "pretrained", dtype=torch.float32)
    if model.origin.label != digits.LABEL:
        pytest.skip("google/vit is in Hugging Face's cache and comes first")
    assert "trained here" in model.origin.note
    accuracy = digits.held_out_accuracy(cache_folder() / "vit-digits")
    print(f"vit: held-out accuracy {accuracy:.3f}, largest relative difference {max(model.differences):.1e}")
    assert accuracy > 0.8


def test_training_is_deterministic_and_leaves_the_random_state_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "EPOCHS", 1)
    sizes = {**spec_of("vit").sizes, "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
    torch.manual_seed(11)
    before = torch.get_rng_state()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        digits.train_digits(sizes, tmp_path / name)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    assert torch.equal(torch.get_rng_state(), before)
