"""Drawn whole models: every family, every row with influence, margins of every size."""

import pytest
import torch

from robust_attn.soundness.predictions import margins_and_slopes
from robust_attn.soundness.whole_models import FAMILIES, drawn_model, random_network, words_of


def test_families_take_turns_and_a_seed_is_a_model():
    drawn = [drawn_model(seed) for seed in range(8)]
    assert [family for *_, family in drawn] == list(FAMILIES) * 2
    again, points, _ = drawn_model(3)
    assert torch.equal(points, drawn[3][1])
    assert torch.equal(again.tape(points).logits, drawn[3][0].tape(points).logits)


@pytest.mark.parametrize("seed", range(8))
def test_every_row_has_influence_and_the_margin_is_positive(seed):
    network, points, _ = drawn_model(seed)
    margins, slope = margins_and_slopes(network.tape(points), points[None])
    assert float(margins[0]) > 0
    assert bool((slope[0].norm(dim=-1) > 0).all())


def test_margins_are_of_every_size():
    margins = []
    for seed in range(24):
        network, points, _ = drawn_model(seed)
        best = network.tape(points).logits.topk(2).values
        margins.append(float(best[0] - best[1]))
    assert min(margins) < 0.03
    assert max(margins) > 0.3


def test_what_was_drawn_is_told_in_words():
    found = {field: set() for field in words_of(*drawn_model(0)[::2])}
    for seed in range(40):
        network, _, family = drawn_model(seed)
        for field, value in words_of(network, family).items():
            found[field].add(value)
    assert found["norms"] == {f"{order}, {kind}" for order in ("before", "after") for kind in ("LayerNorm", "RMSNorm")}
    assert len(found["activation"]) == 10
    assert found["mask"] == {"none", "causal"}
    assert found["depth"] == {"1 block", "2 blocks"}


def test_a_batch_of_inputs_is_read_as_one_by_one():
    network, points = random_network(5)
    batch = points + 0.1 * torch.randn(4, *points.shape, dtype=points.dtype, generator=torch.Generator().manual_seed(0))
    together = network.tape(points).replayed(batch)[-1]
    assert torch.allclose(together, torch.stack([network.tape(each).logits for each in batch]), rtol=0, atol=1e-12)
