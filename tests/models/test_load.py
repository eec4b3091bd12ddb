from __future__ import annotations

import pytest
import torch

from robust_attn.models import load_model
from robust_attn.types import UserError

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.mark.parametrize("name", ["toy", "bert"])
def test_the_global_random_state_is_untouched(name):
    sizes = {} if name == "toy" else SIZES
    torch.manual_seed(123)
    before = torch.get_rng_state()
    load_model(name, "random", seed=4, sizes=sizes)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_does_not_touch_the_global_random_state_either(tmp_path):
    load_model("bert", "random", dtype=torch.float32, sizes=SIZES).module.save_pretrained(tmp_path)
    torch.manual_seed(123)
    before = torch.get_rng_state()
    load_model("bert", str(tmp_path))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_alone_decides_random_weights():
    torch.manual_seed(1)
    one = load_model("bert", "random", seed=9, sizes=SIZES)
    torch.manual_seed(2)
    same = load_model("bert", "random", seed=9, sizes=SIZES)
    other = load_model("bert", "random", seed=10, sizes=SIZES)
    assert one.origin.label == "random:9"
    assert torch.equal(one.layer(1).query, same.layer(1).query)
    assert not torch.equal(one.layer(1).query, other.layer(1).query)


def test_every_precision_has_the_same_random_weights():
    exact = load_model("bert", "random", dtype=torch.float64, sizes=SIZES)
    coarse = load_model("bert", "random", dtype=torch.float32, sizes=SIZES)
    assert (exact.dtype, coarse.dtype) == (torch.float64, torch.float32)
    assert torch.equal(exact.layer(0).query, coarse.layer(0).query.double())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hiden_size": 3}, "no size called hiden_size"),
        ({"hidden_size": "wide"}, "refuses the sizes|cannot be built"),
        ({"hidden_size": 25, "num_attention_heads": 2}, "refuses the sizes|cannot be built"),
        ({"hidden_size": -4}, "refuses the sizes|cannot be built"),
    ],
)
def test_sizes_that_a_model_refuses(sizes, message):
    with pytest.raises(UserError, match=message):
        load_model("bert", "random", sizes=sizes)
    with pytest.raises(UserError):
        load_model("toy", sizes={"heads": 3})


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
