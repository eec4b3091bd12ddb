"""Rows promise for all samples: changes are the largest, radii the smallest."""

import math
from dataclasses import replace

import pytest

from robust_attn.records.parts import Norms, RadiusPart
from robust_attn.types import Verdict
from robust_attn.views.certificates import (
    certificate_rows,
    certificate_table,
    heads_panel,
    radius_of,
    radius_promise,
    radius_tile,
)
from tests.records.samples import certified, certify_record


def with_radius(radius: float | None, layer: int = 0, sample: int = 0, **fields: object):
    unbounded = radius == math.inf
    asked = RadiusPart(tolerance=0.1, radius=None if unbounded else radius, unbounded=unbounded, bound="local.ball")
    return certify_record(layer, sample=sample, certified_radius=asked, **fields)


def test_a_row_promises_for_all_samples():
    first = with_radius(3.0, certified=certified(0.2, "local.hull"))
    second = with_radius(2.0, sample=1, certified=certified(0.5), norms=Norms(kappa=199.0))
    (row,) = certificate_rows([first, second])
    assert (row.certified, row.widest, row.shortest, row.radius_shown) == (0.5, second, second, "2.00")
    assert row.largest(lambda record: record.norms.kappa) == 850.0
    assert row.largest(lambda record: record.norms.value) is None  # not known of every sample


def test_layers_come_before_their_heads():
    records = [certify_record(layer, head) for layer in (1, 0) for head in (1, None, 0)]
    places = [(row.layer, row.head) for row in certificate_rows(records)]
    assert places == [(layer, head) for layer in (0, 1) for head in (None, 0, 1)]


@pytest.mark.parametrize(("radius", "shown"), [(0.12399, "0.123"), (math.inf, "any"), (None, "unknown")])
def test_radii_are_rounded_down_and_endless_ones_are_any(radius, shown):
    (row,) = certificate_rows([with_radius(radius)])
    assert row.radius_shown == shown
    table = certificate_table([row], "text")
    assert shown in [cell.shown for cell in table.rows[0]]
    assert "Radius for 0.1" in [column.title for column in table.columns]


def test_one_unknown_radius_leaves_its_layer_without_one_and_an_endless_one_does_not():
    (row,) = certificate_rows([with_radius(2.0), with_radius(None, sample=1)])
    assert radius_promise([row]) == "No radius is promised for layer 0."
    (mixed,) = certificate_rows([with_radius(math.inf), with_radius(2.0, sample=1)])
    assert radius_of(mixed.shortest) == 2.0


def test_the_promise_speaks_of_layers_alone():
    head = replace(with_radius(0.1, 3), head=0)
    assert radius_promise(certificate_rows([with_radius(0.5, 3), head])) == (
        "For the same inputs, the output of layer 3 changes by at most 0.1 under every such perturbation of size at "
        "most 0.500 (in the norm of the budget)."
    )
    both = certificate_rows([with_radius(0.5, 3), with_radius(0.25, 4)])
    assert "from 0.250 in layer 4 to 0.500 in layer 3" in radius_promise(both)
    assert radius_tile(both)[0].number == "0.250"


def test_nothing_is_said_of_radii_that_nobody_asked_for():
    rows = certificate_rows([certify_record(certified_radius=None)])
    assert radius_promise(rows) == ""
    assert radius_tile(rows) == ()
    assert not [column for column in certificate_table(rows, "text").columns if "adius" in column.title]


def test_a_broken_certificate_promises_no_radius():
    rows = certificate_rows([with_radius(0.5, verdict=Verdict.VIOLATED), with_radius(0.5, 1)])
    assert rows[0].verdict is Verdict.VIOLATED
    assert radius_promise(rows).startswith("No radius is promised")


def test_the_map_of_heads_has_a_cell_for_every_head_that_is_certified():
    rows = certificate_rows([certify_record(layer, head) for layer in range(2) for head in (None, 0, 1)])
    panel = heads_panel(rows)
    assert [(cell.row, cell.column) for cell in panel.cells] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert panel.cells[0].tip == "layer 0, head 0: at most 20.0"  # 0.2 within 0.01
    assert panel.words.startswith("4 heads; largest certified gain 20.0")
    assert heads_panel(certificate_rows([certify_record(0, 0)])) is None
