from __future__ import annotations

import pytest
import torch
from torch import nn

from robust_attn.models.hooks import Spot, watch


class Block(nn.Module):
    """Doubles, and returns its result in a tuple as attention modules do; takes its input by name if asked."""

    def forward(self, hidden_states):
        return 2 * hidden_states, None


class Model(nn.Module):
    def __init__(self, by_name: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.scale = nn.Parameter(torch.ones(()))
        self.by_name = by_name

    def forward(self, batch, offset=0.0, fail=False):
        hidden = batch * self.scale + offset
        for block in self.blocks:
            hidden = (block(hidden_states=hidden) if self.by_name else block(hidden))[0]
        if fail:
            raise RuntimeError("out of memory")
        return hidden


@pytest.mark.parametrize("by_name", [False, True])
def test_inputs_and_outputs_come_in_the_order_of_the_modules_given(by_name):
    model = Model(by_name)
    first, second = model.blocks
    seen = watch(model, torch.ones(3), sources=[Spot(second), Spot(first)], sinks=[Spot(first), Spot(second)])
    assert [float(tensor[0]) for tensor in seen.inputs] == [2.0, 1.0]
    assert [float(tensor[0]) for tensor in seen.outputs] == [2.0, 4.0]


def test_options_reach_the_model_and_nothing_keeps_a_gradient():
    model = Model()
    seen = watch(model, torch.ones(3), sources=[Spot(model.blocks[0])], options={"offset": 5.0})
    assert float(seen.inputs[0][0]) == 6.0
    assert not seen.inputs[0].requires_grad


@pytest.mark.parametrize("fail", [False, True])
def test_no_hook_stays_behind_even_when_the_model_fails(fail):
    model = Model()
    blocks = [Spot(block) for block in model.blocks]
    if fail:
        with pytest.raises(RuntimeError, match="out of memory"):
            watch(model, torch.ones(3), sources=blocks, sinks=blocks, options={"fail": True})
    else:
        watch(model, torch.ones(3), sources=blocks, sinks=blocks)
    assert not [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]


def test_a_module_that_is_not_run_is_an_error_and_not_a_gap():
    with pytest.raises(KeyError):
        watch(Model(), torch.ones(3), sources=[Spot(Block())])


def test_a_module_that_layers_share_is_watched_call_by_call():
    model = Model()
    model.blocks[1] = model.blocks[0]
    spots = [Spot(model.blocks[0], call) for call in (1, 0)]
    seen = watch(model, torch.ones(3), sources=spots, sinks=spots)
    assert [float(tensor[0]) for tensor in seen.inputs] == [2.0, 1.0]
    assert [float(tensor[0]) for tensor in seen.outputs] == [4.0, 2.0]
