import math

import pytest
import torch

from robust_attn.bounds import paper
from robust_attn.pipeline.balls import attained, single_head, two_atom_constants
from robust_attn.tasks.mean_field import MeanFieldTask

STUDY = MeanFieldTask(radius=math.sqrt(2), lengths=(2, 32, 256), beyond=(10**6,))


@pytest.mark.parametrize("length", [2, 8, 40])
def test_two_weighted_atoms_are_the_tokens_written_out(length):
    """One token at -R, the others at R: n tokens, and two atoms of masses 1/n and 1 - 1/n, have one constant."""
    A = torch.tensor([[-1.0]]).double()
    points = paper.adversarial_tokens(A, radius=1.2, length=length)
    masses = torch.tensor([1 / length]).double()
    pair = paper.adversarial_tokens(A, radius=1.2, length=2)
    weighted = two_atom_constants(single_head([[-1.0]]), pair, masses)
    assert float(weighted) == pytest.approx(attained(single_head([[-1.0]]), points), rel=1e-9)


def test_no_interaction_has_constant_one_whatever_the_mass():
    pair = torch.tensor([[1.0], [-1.0]]).double()
    masses = torch.tensor([0.5, 1e-3, 1e-9]).double()
    constants = two_atom_constants(single_head([[0.0]]), pair, masses)
    assert constants.tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_the_constant_levels_off_and_the_bounds_cross():
    records = list(STUDY.measured(seed=0))
    assert {record.verdict for record in records} == {"HOLDS"}
    best = {r.tokens: r.lipschitz.lower for r in records if r.configuration == "best_mass"}
    assert best[2] < best[32] < best[256] == pytest.approx(best[10**6], rel=1e-2)
    one = {r.tokens: r.lipschitz.lower for r in records if r.configuration == "one_token"}
    assert one[10**6] < one[256]
    found = STUDY.findings(records)
    assert found["attained"] == max(best.values())
    assert found["attained"] < found["bounds"]["sharp.unified"] < found["bounds"]["paper.mean_field"] / 20
    (panel,) = STUDY.panels(records)
    assert len(panel.lines["paper.discrete"]) == 3
    assert len(panel.lines["sharp.unified"]) == 4


def test_special_masses_are_whole_numbers_of_tokens():
    records = [r for r in STUDY.measured(seed=0) if r.special_mass is not None and r.tokens <= 256]
    for record in records:
        count = record.special_mass * record.tokens
        assert count == pytest.approx(round(count))
        assert 1 <= round(count) <= max(1, record.tokens // 2)
