"""Local constants: how they grow, and that they promise nothing within a budget."""

from dataclasses import replace

import pytest

from robust_attn.records.parts import Constant
from robust_attn.views.constants import OURS, RADIUS, RELEASED, TOKENS, constants_view, growth_of
from robust_attn.views.panel import Role
from tests.records.samples import constant_record

from .runs import run_of


def grown(exponent: float, **fields: object):
    lengths = ((n, s) for n in (4, 16, 64) for s in range(2))
    return [replace(constant_record(tokens=n, sample=s, value=n**exponent), **fields) for n, s in lengths]


def test_the_exponent_is_that_of_the_power_law_by_either_estimator():
    ours, released = growth_of(grown(0.5), TOKENS)
    assert (ours.estimator, released.estimator) == (OURS, RELEASED)
    assert [line.law.exponent for line in (ours, released)] == pytest.approx([0.5, 0.5])
    assert ours.means == {4.0: 2.0, 16.0: 4.0, 64.0: 8.0}
    assert released.means[4.0] == pytest.approx(2.6)


def test_against_the_radius_the_length_is_held_fixed():
    records = [replace(constant_record(value=r**2.0), scaled_to=r) for r in (1.0, 2.0, 4.0)]
    ours, _ = growth_of(records, RADIUS)
    assert (ours.fixed, ours.law.exponent) == ("n = 8", pytest.approx(2.0))
    assert {panel.name for panel in constants_view(run_of(*records)).panels} == {"lipschitz_radius"}
    assert growth_of(grown(0.5), RADIUS) == ()


def test_heads_are_parts_of_their_own_and_are_not_drawn():
    records = [*grown(0.5), *grown(1.0, head=2)]
    view = constants_view(run_of(*records))
    assert {row[0].shown for row in view.tables[0].rows} == {"layer 0", "layer 0, head 2"}
    assert not [name for name in view.panels[0].lines if "head" in name]
    assert view.panels[0].look(list(view.panels[0].lines)[1]).role is Role.REACHED


def test_local_constants_are_no_promise_about_a_budget():
    statement = constants_view(run_of(*(constant_record(tokens=n, value=1.0) for n in (2, 8)))).statement
    assert "at 2 to 8 tokens" in statement.headline.detail
    assert "at most 1.02 in layer 0" in statement.promises[0]
    assert "infinitely small" in statement.limits


def test_a_layer_with_an_unknown_constant_has_no_limit():
    lost = replace(constant_record(1, sample=1), lipschitz=Constant(lower=1.0))
    said = constants_view(run_of(constant_record(0), constant_record(1), lost)).statement.promises[0]
    assert "in layer 0." in said
    assert "Nothing is promised for layer 1." in said
    assert "nothing is promised" in constants_view(run_of(lost)).statement.promises[0]
