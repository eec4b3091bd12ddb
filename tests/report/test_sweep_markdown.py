from pathlib import Path

from robust_attn.report import write_sweep_report
from robust_attn.report.sweep_markdown import RUNS_LISTED

from .sample_runs import record, write_run, write_sweep


def text_of(folder: Path) -> str:
    write_sweep_report(folder)
    return (folder / "report.md").read_text(encoding="utf-8")


def test_a_sweep_reads_as_markdown_too(tmp_path: Path) -> None:
    text = text_of(write_sweep(tmp_path))
    assert text.startswith("# Every promise held\n")
    assert "| run | attack | model | tokens | status |" in text
    assert "| 15 | mass\\_split | gpt2 | 128 | complete |" in text
    assert "| model=gpt2 | 0 | 4 |" in text
    assert "| gain | tokens | attack=move, model=gpt2 | 0.25 |" in text
    for name in ("along-tokens", "splitting"):
        assert f"(figures/{name}.png)" in text
        assert (tmp_path / "figures" / f"{name}.png").is_file()


def test_failures_and_markup_are_said_in_full(tmp_path: Path) -> None:
    write_run(tmp_path / "0", [record()], overrides=("model=<b>|`x`",))
    write_run(tmp_path / "1", [], summary_fields={"status": "failed", "message": "no <layer>"})
    text = text_of(tmp_path)
    assert "failed: no &lt;layer&gt;" in text
    assert "&lt;b&gt;\\|\\`x\\`" in text
    assert "<b>" not in text


def test_a_long_sweep_is_cut_and_says_so(tmp_path: Path) -> None:
    for number in range(RUNS_LISTED + 3):
        write_run(tmp_path / str(number), [], overrides=(f"seed={number}",))
    assert "3 further runs are left out here." in text_of(tmp_path)
