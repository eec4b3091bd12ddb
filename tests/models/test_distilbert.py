from __future__ import annotations

import torch

from robust_attn.attention.measure import TokenMeasure
from robust_attn.models import load_model


def test_the_layer_is_the_attention_module_itself(small_sizes):
    model = load_model("distilbert", "random", sizes=small_sizes["distilbert"])
    points = torch.randn(2, 7, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for index, block in enumerate(model.module.transformer.layer):
        theirs = block.attention(points)[0]
        torch.testing.assert_close(model.layer(index)(TokenMeasure.uniform(points)), theirs)


def test_a_size_may_be_given_under_either_of_its_names():
    one = load_model("distilbert", "random", sizes={"hidden_size": 24, "num_hidden_layers": 1})
    other = load_model("distilbert", "random", sizes={"dim": 24, "n_layers": 1})
    torch.testing.assert_close(one.layer(0).query, other.layer(0).query, rtol=0, atol=0)
