import json
import math
from pathlib import Path

import pytest

from robust_attn.records.parts import Scale
from robust_attn.runs.tracking.flat import metrics, outcome, plain, scalars, table
from tests.records.samples import attack_record, case_record, constant_record, prediction_record

from .sample_records import record, summary


def test_metrics_are_scalars_with_slashes_without_unknowns_and_long_fields() -> None:
    flat = metrics(record(layer=3, gain=None))
    assert flat["certified/output_change"] == 0.03
    assert {"schema", "kind", "model", "layer", "sample", "tokens", "copies", "verdict"}.isdisjoint(flat)
    assert flat["bounds/paper/discrete/log10"] == 3.0
    assert {"observed/gain", "convergence", "bounds", "bounds/paper/masked/log10", "bounds/odd/log10"}.isdisjoint(flat)
    assert not [name for name in flat if name.startswith("motion")]
    assert not [name for name in flat if "." in name]
    assert prediction_record().text
    assert "text" not in metrics(prediction_record())


def test_a_row_of_the_table_says_which_record_it_is() -> None:
    row = scalars(record(layer=3, gain=None))
    assert (row["layer"], row["sample"], row["model"], row["verdict"]) == (3, 0, "minilm", "HOLDS")
    assert set(metrics(record())) < set(scalars(record()))


def test_the_end_of_a_run_repeats_nothing_of_its_config() -> None:
    told = outcome(summary())
    assert (told["status"], told["exit_status"], told["verdicts"]) == ("complete", 0, {})
    assert {"schema", "model", "tokens", "samples", "records"}.isdisjoint(told)


def test_the_scale_is_a_metric_though_tokens_are_none() -> None:
    assert metrics(attack_record(scale=Scale(tokens=3.0, output=2.0)))["scale/tokens"] == 3.0


def test_seeds_are_no_metrics() -> None:
    constant = constant_record(value=2.0)
    assert constant.lipschitz.seed is not None
    assert metrics(constant)["lipschitz/lower"] == 2.0
    assert not [name for record in (constant, case_record(7)) for name in metrics(record) if "seed" in name]


def test_plain_values_survive_json_and_nothing_else_remains() -> None:
    values = {"a": {"b": (1, 2)}, "path": Path("x"), "nan": math.nan, 3: True, "none": None, "s": {"x"}}
    expected = {"a": {"b": [1, 2]}, "path": "x", "nan": None, "3": True, "none": None, "s": ["x"]}
    assert json.loads(json.dumps(plain(values), allow_nan=False)) == expected


def test_a_table_of_uneven_rows_has_gaps_and_one_type_per_column() -> None:
    columns, lines = table([{"a": 1, "b": "x"}, {"a": 2.5, "c": 3}, {"c": "y"}])
    assert columns == ["a", "b", "c"]
    assert lines == [[1, "x", None], [2.5, None, "3"], [None, None, "y"]]


def test_the_home_folder_is_written_as_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    values = {"data": {"path": "/home/somebody/a.txt"}, "folder": Path("/home/somebody/b"), "other": "/data/c"}
    assert plain(values) == {"data": {"path": "~/a.txt"}, "folder": "~/b", "other": "/data/c"}
    monkeypatch.setenv("HOME", "/")
    assert plain("/data/c") == "/data/c"
