from pathlib import Path

from robust_attn.report import write_report
from robust_attn.report.markdown import escaped, fenced, table

from .sample_runs import moved_record, write_inputs, write_run


def test_markup_is_escaped() -> None:
    assert escaped("<b>|*x*`") == r"&lt;b&gt;\|\*x\*\`"
    assert escaped("two\n\n# lines") == r"two \# lines"


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert fenced("a ``` b").startswith("````sh\n")


def test_tables_have_one_line_per_row() -> None:
    assert table(("a", "b"), [("1", "x|y")]) == "| a | b |\n| --- | --- |\n| 1 | x\\|y |"


def test_the_tokens_that_moved_most_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [moved_record([0.25, 0.0, 0.5], parts=[2, 2, 2], apart=[0.25, 0.0, 0.0])])
    write_inputs(folder, {"3": [["a|b", "c", "<d>"]]})
    write_report(folder)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "| 0 | 0 | &lt;d&gt; 0.500, a\\|b 0.250 ×2 |" in text
