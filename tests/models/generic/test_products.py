"""Models that do not call transformers' attention interface, seen by what they multiply."""

from __future__ import annotations

import pytest
import torch

import robust_attn as ra
from robust_attn.attention.mask import Mask, Window
from robust_attn.models.generic.products import Products
from tests.models.generic.test_extract import taken
from tests.models.small import TEXT, drawn, library
from tests.models.test_wrap import holds, interface, state

GPT = {"n_embd": 24, "n_layer": 2, "n_head": 2, "vocab_size": 99, "n_positions": 64}
BLOOM = ("Bloom", {"hidden_size": 24, "n_layer": 2, "n_head": 4, "vocab_size": 99})
NEO = {"hidden_size": 24, "num_layers": 2, "num_heads": 2, "vocab_size": 99, "intermediate_size": 32}
NEO |= {"max_position_embeddings": 64, "attention_types": [[["global", "local"], 1]]}
FALCON = ("Falcon", {**TEXT, "num_attention_heads": 4})


def test_slopes_of_bloom_are_a_bias_by_positions():
    module, found = taken(BLOOM)
    assert found.whole
    assert max(found.differences) <= 1e-12
    first = found.attached()[0].weights
    assert first.mask is Mask.CAUSAL
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8], dtype=torch.float64)
    places = torch.arange(12, dtype=torch.float64)
    expected = (slopes[:, None, None] * places).expand(4, 12, 12).tril()
    torch.testing.assert_close(first.position_bias.table.double().tril(), expected, rtol=0, atol=1e-6)
    assert torch.equal(first.query[1], module.h[0].self_attention.query_key_value.weight[18:24])


@pytest.mark.parametrize("changes", [{}, {"alibi": True}, {"multi_query": False}], ids=str)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_falcon_in_both_of_its_implementations(changes, implementation):
    _, found = taken(FALCON, attn_implementation=implementation, **changes)
    assert found.whole
    assert max(found.differences) <= 1e-12
    first = found.attached()[0].weights
    assert (first.mask, first.position_bias is not None) == (Mask.CAUSAL, "alibi" in changes)


@pytest.mark.parametrize(
    "kind", [("GPTJ", {**GPT, "rotary_dim": 4}), ("CodeGen", {**GPT, "n_head": 4, "rotary_dim": 4})]
)
def test_partial_rotations_of_neighbours(kind):
    _, found = taken(kind)
    assert found.whole
    assert max(found.differences) <= 1e-12
    assert found.attached()[0].weights.rotary is not None


def test_a_window_is_seen_once_the_text_is_longer_and_nothing_is_promised_beyond():
    _, found = taken(("GPTNeo", NEO), window_size=4)
    assert [each.mask for each in found.found] == [Mask.CAUSAL, Window(3, 0)]
    assert [each.longest for each in found.found] == [12, 12]
    model = ra.wrap(drawn(library.GPTNeoModel, library.GPTNeoConfig(**NEO, window_size=40)))
    assert [model.layer(index).mask for index in (0, 1)] == [Mask.CAUSAL, Window(39, 0)]
    assert model.max_tokens == 64


def test_a_classifier_is_attacked_certified_and_left_as_it_was():
    module = drawn(library.BloomForSequenceClassification, library.BloomConfig(**BLOOM[1]))
    before, names = state(module), interface()
    model = ra.wrap(module)
    assert model.max_tokens == 128
    assert "known for texts of up to 128 tokens" in model.origin.note
    assert holds(model)
    assert state(module) == before
    assert interface() == names


def test_a_pass_that_breaks_off_leaves_no_hooks(monkeypatch):
    module = drawn(library.BloomModel, library.BloomConfig(**BLOOM[1]))
    before = state(module)

    def failing(*_args, **_options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(module.h[1].self_attention.dense, "forward", failing)
    with pytest.raises(ra.UserError, match="out of memory"):
        ra.wrap(module)
    assert state(module) == before
    assert torch.ones(2).softmax(-1).sum() == 1  # no mode is left behind
    assert not torch.overrides._get_current_function_mode_stack()


def test_products_of_three_axes_and_of_torchs_own_function():
    seen = []
    q, k, v = (torch.randn(6, 5, 4, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in range(3))
    with Products(seen.append, lambda: 2):
        torch.bmm(torch.baddbmm(torch.ones(6, 5, 5).double(), q, k.mT, alpha=0.5).softmax(-1), v)
        four = [each.unflatten(0, (2, 3)) for each in (q, k, v)]
        torch.nn.functional.scaled_dot_product_attention(*four, is_causal=True)
    first, second = seen
    assert first.query.shape == first.key.shape == first.value.shape == (2, 3, 5, 4)
    assert first.scaling == 0.5
    torch.testing.assert_close(first.mask, torch.ones(1, 3, 5, 5, dtype=torch.float64))
    assert second.scaling == 0.5
    assert torch.equal(second.mask[0, 0], torch.ones(5, 5, dtype=torch.bool).tril())
