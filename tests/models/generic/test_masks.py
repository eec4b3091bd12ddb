from __future__ import annotations

import pytest
import torch

from robust_attn.attention.mask import Mask, Window
from robust_attn.models.generic.interface import window_at
from robust_attn.models.generic.masks import mask_kind, position_bias
from robust_attn.models.generic.refusal import LayerRefusedError, Reason

SMALLEST = torch.finfo(torch.float32).min
NOWHERE = (False, None)
ALL = torch.ones(2, 1, 6, 6, dtype=torch.bool)


def added(seen, hidden=SMALLEST):
    return torch.zeros(seen.shape).masked_fill(~seen, hidden)


@pytest.mark.parametrize("form", [lambda seen: seen, added, lambda seen: added(seen, -torch.inf)])
@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (ALL, Mask.NONE),
        (ALL.tril(), Mask.CAUSAL),
        (ALL.tril().triu(-2), Window(2, 0)),
        (ALL.tril(1).triu(-1), Window(1, 1)),
    ],
)
def test_kinds(form, seen, kind):
    assert mask_kind(form(seen), 6, NOWHERE) == kind


def test_no_mask_is_none():
    assert mask_kind(None, 6, NOWHERE) is Mask.NONE


def test_a_window_that_the_text_does_not_reach_is_remembered():
    assert mask_kind(ALL.tril(), 6, (True, Window(99, 0))) == Window(99, 0)
    with pytest.raises(LayerRefusedError, match="chunks"):
        mask_kind(ALL.tril(), 6, (True, None))
    with pytest.raises(LayerRefusedError, match="chunks"):
        mask_kind(ALL.tril(), 6, (True, Window(2, 0)))


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (ALL & (torch.arange(6) != 3), Reason.MASK),
        (torch.cat((ALL[:1], ALL[1:].tril())), Reason.MASK),
        (~ALL, Reason.MASK),
        (ALL.triu(1), Reason.MASK),
        (ALL[..., :4], Reason.MASK),
    ],
    ids=["a hole", "samples differ", "nobody", "not itself", "shape"],
)
def test_anything_else_is_refused(mask, reason):
    with pytest.raises(LayerRefusedError) as caught:
        mask_kind(mask, 6, NOWHERE)
    assert caught.value.reason is reason


def test_windows_of_the_librarys_own_mask_functions():
    from transformers import masking_utils as library

    assert window_at(library.sliding_window_causal_mask_function(5), 5) == Window(4, 0)
    assert window_at(library.sliding_window_bidirectional_mask_function(3), 3) == Window(3, 3)
    assert window_at(library.chunked_causal_mask_function(4, torch.zeros(1, dtype=torch.long)), 4) is None


def test_a_mask_function_that_knows_one_text_only_is_no_window():
    table = torch.ones(1, 12, dtype=torch.bool)
    assert window_at(lambda batch, _head, _row, column: table[batch, column], 5) is None


def test_a_bias_is_what_a_mask_and_an_argument_add_where_tokens_are_seen():
    bias = torch.randn(1, 3, 6, 6)
    mask = (added(ALL.tril()) + bias).expand(2, -1, -1, -1)
    found = position_bias(mask, [bias.expand(2, -1, -1, -1)], 6)
    seen = ALL[0].tril()
    assert torch.equal(found, torch.where(seen, bias[0].double(), 0.0) + bias[0].double())
    assert mask_kind(mask, 6, NOWHERE) is Mask.CAUSAL
    assert position_bias(added(ALL.tril()), [], 6) is None
    assert position_bias(ALL, [torch.zeros(1, 3, 6, 6)], 6) is None


def test_a_bias_that_depends_on_the_input_is_refused():
    with pytest.raises(LayerRefusedError) as caught:
        position_bias(torch.randn(2, 1, 6, 6), [], 6)
    assert caught.value.reason is Reason.BIAS
