import json
import math
from pathlib import Path

from robust_attn.tracking.flat import metrics, plain, table

from .sample_records import record


def test_metrics_are_dotted_scalars_without_unknowns_and_long_fields() -> None:
    flat = metrics(record(layer=3, gain=None))
    assert flat["certified.output_change"] == 0.03
    assert flat["layer"] == 3
    assert flat["bounds.paper.discrete.log10"] == 3.0
    assert {"observed.gain", "convergence", "text", "bounds", "bounds.paper.masked.log10"}.isdisjoint(flat)


def test_plain_values_survive_json_and_nothing_else_remains() -> None:
    values = {"a": {"b": (1, 2)}, "path": Path("x"), "nan": math.nan, 3: True, "none": None, "s": {"x"}}
    expected = {"a": {"b": [1, 2]}, "path": "x", "nan": None, "3": True, "none": None, "s": ["x"]}
    assert json.loads(json.dumps(plain(values), allow_nan=False)) == expected


def test_a_table_of_uneven_rows_has_gaps_and_one_type_per_column() -> None:
    columns, lines = table([{"a": 1, "b": "x"}, {"a": 2.5, "c": 3}, {"c": "y"}])
    assert columns == ["a", "b", "c"]
    assert lines == [[1, "x", None], [2.5, None, "3"], [None, None, "y"]]
