import pytest
import torch

from robust_attn.attacks.head_starts import ATTENDED, DIVISIONS, VISIBLE, _divisions, divided_starts
from robust_attn.attacks.starts import exact_change
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import BUDGETS, Wasserstein
from tests.cases import CASES, Case, generator, one_sample, random_layer, random_measure


def two_heads(values: list[float]) -> AttentionLayer:
    """d = 1, one number for the value of each head, no logits."""
    zeros = torch.zeros(2, 1, 1, dtype=torch.float64)
    return AttentionLayer(
        query=zeros,
        query_bias=zeros[..., 0],
        key=zeros,
        key_bias=zeros[..., 0],
        value=torch.tensor(values).double()[:, None, None],
        output=torch.ones_like(zeros),
        offset=torch.zeros(1, dtype=torch.float64),
        scale=1.0,
    )


def test_what_a_division_promises_by_hand():
    """B = 3 and -4: one token for both heads gains |3 - 4| = 1, a token for each gains (9 + 16)^(1/2) = 5."""
    divisions = _divisions(two_heads([3.0, -4.0]), generator(0))
    assert [division.gain for division in divisions] == pytest.approx([5.0, 5.0])
    first = divisions[0]
    assert abs(float(first.alone / first.others)) == pytest.approx(3 / 4)
    assert float(first.alone * first.others) < 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_division_promises_is_the_norm_of_the_two_maps(case):
    layer = random_layer(case, generator(0))
    maps = [layer.output[head] @ layer.value[layer.group_of(head)] for head in range(layer.heads)]
    for division in _divisions(layer, generator(1)):
        others = torch.stack([each for head, each in enumerate(maps) if head != division.head]).sum(0)
        both = torch.cat((others, maps[division.head]), dim=1)
        exact = float(torch.linalg.matrix_norm(both, 2))
        assert 0.98 * exact <= division.gain <= exact * (1 + 1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kind", sorted(BUDGETS))
def test_two_tokens_move_and_the_whole_budget_is_spent(case, kind):
    layer, measure, budget = random_layer(case, generator(0)), random_measure(case, generator(1)), BUDGETS[kind](0.5)
    starts = divided_starts(layer, measure, budget, generator(2), exact_change(layer, measure))
    assert starts.shape[0] == DIVISIONS * (ATTENDED + VISIBLE)
    for start in starts:
        assert budget.contains(start, measure).all()
        assert ((start.norm(dim=-1) > 0).sum(-1) <= 2).all()
        assert torch.allclose(budget.norm(start, measure), torch.full_like(budget.norm(start, measure), 0.5))


def test_none_for_one_head_or_one_token():
    layer = AttentionLayer.single_head(torch.eye(5, dtype=torch.float64), torch.eye(5, dtype=torch.float64))
    measure = random_measure(Case(), generator(0))
    change = exact_change(layer, measure)
    assert divided_starts(layer, measure, Wasserstein(1.0), generator(1), change).shape[0] == 0
    alone = one_sample(TokenMeasure.uniform(torch.ones(1, 5, dtype=torch.float64)))
    assert (
        divided_starts(random_layer(Case(), generator(0)), alone, Wasserstein(1.0), generator(1), change).shape[0] == 0
    )
