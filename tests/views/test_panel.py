from robust_attn.views.panel import Look, MapCell, Panel, Role, line, panel_table


def test_rows_have_gaps_where_a_line_has_no_point():
    panel = Panel("p", "", "x", "y", {"a": ((1.0, 2.0), (3.0, 4.0)), "b": ((3.0, 5.0),)})
    assert panel.rows() == [(1.0, [2.0, None]), (3.0, [4.0, 5.0])]


def test_lines_are_sorted_without_gaps_or_repetition():
    assert line([(3, 1.0), (2, None), (1, 2.0), (3, 1.0)]) == ((1.0, 2.0), (3.0, 1.0))


def test_numbers_are_rounded_to_the_side_that_is_safe_for_their_role():
    looks = {role.value: Look(role) for role in Role}
    panel = Panel("p", "t", "x", "y", dict.fromkeys(looks, ((1.0, 1.2345),)), looks=looks)
    shown = {role: panel.value(role.value, 1.2345) for role in Role}
    assert {shown[role] for role in Role if role.rounded_up} == {"1.24"}
    assert {shown[role] for role in Role if role.rounded_down} == {"1.23"}
    assert not [role for role in Role if role.rounded_up and role.rounded_down]
    assert Panel("p", "t", "x", "y", {"a": ()}, percent=True).value("a", 0.9999) == "99.9 %"


def test_a_panel_is_told_in_words_and_as_a_table_with_gaps():
    panel = Panel("p", "Title", "R", "constant", {"first": ((1.0, 2.5),), "second": ((3.0, 4.5),)})
    assert panel.words == "first: 2.5 at R 1; second: 4.5 at R 3"
    table = panel_table(panel)
    assert (table.title, [column.title for column in table.columns]) == ("Title (constant)", ["R", "first", "second"])
    assert [[cell.shown for cell in row] for row in table.rows] == [["1", "2.5", "—"], ["3", "—", "4.5"]]
    named = Panel("p", "Title", "bound", "", {"line": ((1.0, 2.5),)}, categories=("a", "b"))
    assert panel_table(named).rows[0][0].shown == "b"


def test_a_panel_without_points_is_empty():
    assert Panel("p", "", "", "", {"a": ()}).empty
    assert not Panel("p", "", "", "", {}, cells=(MapCell(0, 0, 1.0, "", ""),)).empty
