from __future__ import annotations

import pytest
import torch

from robust_attn.models import load_model
from robust_attn.types import UserError

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.mark.parametrize("weights", ["auto", "pretrained", "/tmp"])
def test_sizes_are_for_random_weights_only(weights):
    with pytest.raises(UserError, match="random weights only"):
        load_model("bert", weights, sizes=SIZES)


def test_a_precision_that_cannot_be_checked_is_refused():
    with pytest.raises(UserError, match=r"dtype must be one of .*float64"):
        load_model("toy", dtype=torch.float16)


def test_a_model_without_layers_is_refused():
    with pytest.raises(UserError, match="no attention layers"):
        load_model("bert", "random", sizes={**SIZES, "num_hidden_layers": 0})


@pytest.mark.parametrize("seed", [-1, 2**32, 10**30])
def test_a_seed_that_no_generator_tells_apart_is_refused(seed):
    """torch's generator keeps 32 bits: 2^32 would give the weights of 0 under another name."""
    with pytest.raises(UserError, match=rf"seed must be a whole number from 0 to 4294967295, got {seed}"):
        load_model("toy", seed=seed)
    assert load_model("toy", seed=2**32 - 1).origin.label == "random:4294967295"


@pytest.mark.parametrize("name", ["bert", "toy"])
def test_weights_of_nothing_are_refused(name):
    with pytest.raises(UserError, match=f"the weights of {name} must be auto, random, pretrained or a folder, got not"):
        load_model(name, "")
