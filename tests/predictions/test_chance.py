import math

import pytest
import torch

from robust_attn.predictions.chance import raised, share_of_one
from tests.predictions.cases import random_network


def test_slack_is_raised_where_it_was_too_small():
    assert raised({"y": 1.2, "z": 2.0, "v": 2.0}, {"y": 1.25, "z": 0.8, "v": math.inf}, 1.2) == pytest.approx(
        {"y": 1.8, "z": 2.0, "v": 5.0}
    )


def test_shares_of_all_inequalities_of_all_walks_add_up_to_no_more():
    network, points = random_network(0)
    tape = network.tape(points)
    looked_at = sum(
        node.value.numel() + sum(torch.numel(value) for value in tape.at(node)) for node in tape.nodes if node.is_curved
    )
    assert share_of_one(tape, 1e-9, walks=3) * 3 * 7 * looked_at < 1e-9
    assert share_of_one(tape, 1e-9, walks=3) == pytest.approx(share_of_one(tape, 3e-9, walks=9))
