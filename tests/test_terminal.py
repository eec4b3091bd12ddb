import logging

import pytest
from rich.console import Console

from robust_attn.terminal import (
    certificate_table,
    closing_table,
    debug_messages,
    lipschitz_table,
    number,
    panel_table,
    power_of_ten,
    record_line,
    upper,
    worst_samples,
)
from robust_attn.views.panel import Panel


def entry(layer: int, verdict: str, tightness: float | None, head: int | None = None) -> dict:
    return {
        "layer": layer, "head": head, "tokens": 8, "verdict": verdict, "tightness": tightness,
        "observed": {"gain": 1.25}, "lipschitz": {"lower": 1.5},
        "bounds": [{"name": "paper.discrete", "log10": 5.0}, {"name": "local.hull", "log10": 500.0}],
        "certified": {"bound": "local.hull", "output_change": None},
    }  # fmt: skip


def test_the_worst_sample_of_each_layer_is_shown():
    records = [entry(1, "HOLDS", 0.2), entry(1, "HOLDS", 0.9), entry(0, "HOLDS", 0.99), entry(0, "VACUOUS", 0.1)]
    assert [(r["layer"], r["tightness"]) for r in worst_samples(records)] == [(0, 0.1), (1, 0.9)]


def test_the_table_has_the_columns_of_the_issue():
    console = Console(record=True, width=200)
    console.print(closing_table([entry(0, "HOLDS", 0.5), entry(0, "UNKNOWN", None, head=1)]))
    shown = console.export_text()
    for column in ("layer", "tokens", "observed gain", "local Lipschitz", "paper's bound", "best certified",
                   "tightness", "verdict"):  # fmt: skip
        assert column in shown
    assert "1e+05" in shown
    assert "10^500" in shown
    assert "0.1" in shown


def certificate(layer: int, head: int | None, sample: int, *, change: float, radius: float | None, **radius_fields):
    asked = {"tolerance": 0.1, "radius": radius, "bound": "local.ball", "unbounded": False} | radius_fields
    return entry(layer, "HOLDS", None, head) | {
        "sample": sample, "budget": {"kind": "frobenius", "radius": 0.5}, "lipschitz": {"lower": 1.5, "upper": 1.625},
        "certified": {"bound": "local.hull", "output_change": change},
        "norms": {"radius": 12.5, "value": 3.25, "interaction": 0.75, "kappa": 117.5, "mixing": 31.25},
        "certified_radius": asked,
    }  # fmt: skip


def test_certificates_are_shown_by_layer_and_head_for_all_samples():
    records = [
        certificate(0, head, sample, change=(2 + sample) / 3, radius=(2 + sample) / 3)
        for head in (None, 1)
        for sample in (0, 1)
    ]
    text = shown(certificate_table(records))
    for words in ("frobenius 0.5", "|W_O W_V|", "|A|", "kappa", "c_n", "R", "for 0.1", "0.1", "12.5", "3.25", "0.75",
                  "117.5", "31.25", "1.50 to 1.63", "local.hull, local.ball", "HOLDS"):  # fmt: skip
        assert words in text
    lines = [line for line in text.splitlines() if "HOLDS" in line]
    assert len(lines) == 2
    for line in lines:
        assert "1.00" in line  # the larger of both changes, 2/3 and 1
        assert "0.666" in line  # the smaller of both radii, rounded down


def test_a_radius_that_was_not_asked_for_has_no_column_and_one_without_end_is_any():
    silent = certificate(0, None, 0, change=1.0, radius=None) | {"certified_radius": None}
    assert "radius" not in shown(certificate_table([silent]))
    endless = shown(certificate_table([certificate(0, None, 0, change=0.0, radius=None, unbounded=True)]))
    assert "any" in endless
    assert "unknown" in shown(certificate_table([certificate(0, None, 0, change=1.0, radius=None)]))


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (float("nan"), "-"), (12.34567, "12.35")])
def test_numbers(value, text):
    assert number(value) == text


def test_powers_of_ten_do_not_overflow():
    assert power_of_ten(781.7) == "10^782"
    assert power_of_ten(2.0) == "100"
    assert power_of_ten(None) == "-"
    assert power_of_ten(2e203) == "10^2e+203"


def test_upper_values_are_rounded_up():
    assert upper(30.97) == "30.97"
    assert upper(30.970001) == "30.98"
    assert upper(9.99991) == "10"
    assert upper(1.00001e-9) == "1.001e-09"
    assert upper(0.0) == "0"
    assert upper(None) == upper(float("nan")) == "-"


def fit(**changes) -> dict:
    spread = {"mean": 8.125, "std": 0.0, "min": 8.0, "max": 8.25}
    sizes = [{"tokens": 4, "scaled_to": 2.0, "lipschitz": spread, "released": None}]
    base = {"layer": 3, "head": None, "tokens": 4, "scaled_to": None, "sizes": sizes, "exponent": 0.25}
    return base | {"interval": [0.2, 0.3], "released_exponent": None, "released_interval": None} | changes


def shown(table) -> str:
    console = Console(record=True, width=160)
    console.print(table)
    return console.export_text()


def test_both_estimators_have_a_row_with_exponent_and_interval():
    text = shown(lipschitz_table([fit()], "tokens"))
    for words in ("n = 4", "8.125", "0.250", "0.200 to 0.300", "lipschitz", "released", "95 %"):
        assert words in text


def test_heads_and_radii_are_named():
    text = shown(lipschitz_table([fit(head=7, scaled_to=2.0)], "tokens"))
    assert "3.7" in text
    assert "R = 2" in text
    assert "n = 4" in shown(lipschitz_table([fit()], "scaled_to"))


def test_a_panel_is_a_table_with_gaps():
    panel = Panel("p", "Title", "R", "constant", {"first": ((1.0, 2.5),), "second": ((3.0, 4.5),)})
    text = shown(panel_table(panel))
    for words in ("Title (constant)", "R", "first", "second", "2.5", "4.5", "-"):
        assert words in text


def test_a_record_is_one_line():
    whole = entry(3, "HOLDS", 0.5) | {"sample": 1, "observed": {"output_change": 0.25}}
    whole["certified"] = {"bound": "local.ball", "output_change": 0.5}
    assert record_line(whole) == "layer 3, sample 1, tokens 8: output moved 0.25 at most 0.5 by local.ball HOLDS"
    assert record_line({"layer": 0, "task": "radius", "certified": None}) == "layer 0: "


def test_messages_are_shown_while_asked_for_and_the_logger_is_as_it_was_afterwards():
    console, logger = Console(record=True, width=100), logging.getLogger("robust_attn")
    before = (logger.level, list(logger.handlers))
    with debug_messages(console):
        logging.getLogger("robust_attn.run").debug("a [record] seen")
    logging.getLogger("robust_attn.run").debug("not seen")
    assert console.export_text().split("\n")[0].rstrip() == "a [record] seen"
    assert (logger.level, logger.handlers) == before
