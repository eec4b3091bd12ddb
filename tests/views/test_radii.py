"""Samples that were examined at several radii, and they alone."""

from dataclasses import replace

from robust_attn.records.parts import BudgetPart
from robust_attn.views.panel import Role
from robust_attn.views.radii import LAYERS_DRAWN, radii_panel
from tests.records.samples import attack_record, certified, certify_record

from .runs import NOTHING


def at(radius: float, layer: int = 0, sample: int = 0, change: float = 0.2, **fields: object):
    budget = BudgetPart(kind="wasserstein", radius=radius)
    return attack_record(layer, sample, budget=budget, certified=certified(change), change=change / 2, **fields)


def test_a_layer_has_what_covers_its_samples_and_the_furthest_that_was_reached():
    panel = radii_panel([at(0.1), at(1.0, change=2.0), at(0.1, sample=1, change=0.4), at(1.0, sample=1)])
    assert panel.lines["layer 0, certified"] == ((0.1, 0.4), (1.0, 2.0))
    assert panel.lines["layer 0, observed"] == ((0.1, 0.2), (1.0, 1.0))
    assert {look.role for look in panel.looks.values()} == {Role.PROMISED, Role.REACHED}
    assert len({look.group for look in panel.looks.values()}) == 1


def test_samples_with_one_radius_and_single_heads_are_left_out():
    assert radii_panel([at(0.1), at(1.0, sample=1)]) is None
    assert radii_panel([replace(at(radius), head=0) for radius in (0.1, 1.0)]) is None


def test_an_unknown_promise_leaves_a_gap():
    panel = radii_panel([at(0.1), at(1.0), at(0.1, sample=1), replace(at(1.0, sample=1), certified=NOTHING)])
    assert [x for x, _ in panel.lines["layer 0, certified"]] == [0.1]


def test_without_an_attack_there_is_no_dashed_line_and_many_layers_are_not_all_drawn():
    budgets = [BudgetPart(kind="wasserstein", radius=radius) for radius in (0.1, 1.0)]
    records = [certify_record(n, budget=budget) for n in range(LAYERS_DRAWN + 2) for budget in budgets]
    panel = radii_panel(records)
    assert "Dashed" not in panel.caption
    assert f"The first {LAYERS_DRAWN} of {LAYERS_DRAWN + 2} layers" in panel.caption
    assert len(panel.lines) == LAYERS_DRAWN
