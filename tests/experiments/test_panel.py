from robust_attn.views.panel import Panel, bound_lines, line


def test_rows_have_gaps_where_a_line_has_no_point():
    panel = Panel("p", "", "x", "y", {"a": ((1.0, 2.0), (3.0, 4.0)), "b": ((3.0, 5.0),)})
    assert panel.rows() == [(1.0, [2.0, None]), (3.0, [4.0, 5.0])]


def test_lines_are_sorted_without_gaps_or_repetition():
    assert line([(3, 1.0), (2, None), (1, 2.0), (3, 1.0)]) == ((1.0, 2.0), (3.0, 1.0))


def test_bounds_that_apply_and_can_be_drawn():
    bounds = [
        {"name": "a", "applies": True, "log10": 2.0},
        {"name": "far", "applies": True, "log10": 400.0},
        {"name": "no", "applies": False, "log10": None},
    ]
    found = bound_lines([{"tokens": 4, "bounds": bounds}, {"tokens": 8, "bounds": bounds[:1]}], "tokens")
    assert found == {"a": ((4.0, 100.0), (8.0, 100.0)), "far": ()}
