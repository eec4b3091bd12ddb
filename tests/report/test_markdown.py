from robust_attn.report.markdown import escaped, fenced, table


def test_markup_is_escaped() -> None:
    assert escaped("<b>|*x*`") == r"&lt;b&gt;\|\*x\*\`"
    assert escaped("two\n\n# lines") == r"two \# lines"


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert fenced("a ``` b").startswith("````sh\n")


def test_tables_have_one_line_per_row() -> None:
    assert table(("a", "b"), [("1", "x|y")]) == "| a | b |\n| --- | --- |\n| 1 | x\\|y |"
