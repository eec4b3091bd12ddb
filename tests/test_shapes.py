"""Shape annotations are checked while tests run: pytest's option puts jaxtyping and beartype around the package."""

from dataclasses import replace

import pytest
import torch
from jaxtyping import TypeCheckError

from robust_attn.attention.layer import AttentionLayer
from robust_attn.bounds.paper import adversarial_tokens
from tests.cases import Case, generator, random_layer


def test_a_function_refuses_a_matrix_that_is_not_square():
    assert adversarial_tokens(-torch.eye(3).double(), radius=1.0, length=4).shape == (4, 3)
    with pytest.raises(TypeCheckError, match="adversarial_tokens"):
        adversarial_tokens(-torch.ones(2, 3).double(), radius=1.0, length=4)


@pytest.mark.parametrize("field", ["key", "query_bias", "output", "offset"])
def test_a_dataclass_refuses_a_field_whose_shape_disagrees_with_the_others(field):
    """One more entry along the last axis: tokens, heads or outputs of another width than the other fields say."""
    layer = random_layer(Case(), generator(0))
    assert isinstance(replace(layer), AttentionLayer)
    values = getattr(layer, field)
    with pytest.raises(TypeCheckError, match="AttentionLayer"):
        replace(layer, **{field: torch.cat((values, values[..., :1]), dim=-1)})


def test_a_dataclass_refuses_integers_where_it_says_floats():
    layer = random_layer(Case(), generator(0))
    with pytest.raises(TypeCheckError, match="AttentionLayer"):
        replace(layer, offset=torch.zeros(6, dtype=torch.int64))
