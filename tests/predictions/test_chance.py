import math

import pytest
import torch

from robust_attn.predictions.chance import NORMS, raised, range_and_norm
from robust_attn.predictions.look import Look, Sizes
from robust_attn.predictions.travel import CONTENTS
from tests.predictions.cases import random_network


def test_slack_is_raised_where_it_was_too_small():
    assert raised({"y": 1.2, "z": 2.0, "v": 2.0}, {"y": 1.25, "z": 0.8, "v": math.inf}, 1.2) == pytest.approx(
        {"y": 1.8, "z": 2.0, "v": 5.0}
    )


@pytest.mark.parametrize("attempts", [1, 4])
def test_shares_of_all_inequalities_add_up_to_the_probability(attempts):
    """Four orders at first and three streams in every attempt, at everything that curved operations read or give."""
    network, points = random_network(0)
    tape = network.tape(points)
    curved = [node for node in tape.nodes if node.is_curved]
    looked_at = sum(node.value.numel() + sum(torch.numel(value) for value in tape.at(node)) for node in curved)
    one_range, one_norm = range_and_norm(tape, 1e-9, attempts=attempts)
    ranges = (4 + 3 * attempts) * (looked_at + tape.logits.numel())
    norms = NORMS * attempts * (len(curved) + 1)
    assert one_range * ranges + one_norm * norms == pytest.approx(1e-9)


def test_no_operation_asks_for_more_norms_than_counted():
    network, points = random_network(0)
    tape, asked = network.tape(points), []

    class Counting(Look):
        """Small sizes everywhere; inequalities between norms are counted, one for every order and stream."""

        def ranges(self, slot):
            return self._ones(slot)

        shape = ranges

        def rows(self):
            return Sizes(*[torch.ones(self.at[0].shape[:-1], dtype=torch.float64)] * 5)

        def norm(self, slot, weights, part):  # noqa: ARG002
            orders, streams = CONTENTS[part]
            asked[-1] += len(orders) + len(streams)
            return torch.ones((), dtype=torch.float64)

        def _ones(self, slot):
            return Sizes(*[torch.full_like(self.at[slot], 1e-3)] * 5)

    look = Counting()
    for node in tape.nodes:
        if node.is_curved:
            look.at = tape.at(node)
            asked.append(0)
            node.operation.remainder(look.at, look)
    assert NORMS / 4 < max(asked) < NORMS
