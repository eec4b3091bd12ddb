from pathlib import Path

import pytest

import robust_attn as ra

from .sample_runs import records, write_run, write_sweep


def test_a_run_gives_its_figures_by_name(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", records(2, 1))
    figures = ra.run_figures(folder)
    assert set(figures) == {"layers", "ladder", "convergence"}
    figures["layers"].savefig(tmp_path / "layers.png")
    assert not (folder / "figures").exists()  # nothing is written that was not asked for


def test_a_sweep_gives_those_of_the_comparison(tmp_path: Path) -> None:
    assert {"along-tokens", "runs", "splitting"} <= set(ra.run_figures(str(write_sweep(tmp_path))))


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ra.UserError, match="no runs below"):
        ra.run_figures(tmp_path)
