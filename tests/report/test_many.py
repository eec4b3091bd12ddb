"""One report over many runs, and the command that writes it."""

import subprocess
import sys
import time

import pytest

import robust_attn as ra
from robust_attn.report import write_report, write_sweep_report
from robust_attn.report.__main__ import main
from tests.records.samples import attack_record
from tests.views.runs import KINDS

from .folders import write_run, write_sweep
from .pages import EVIL, Page


def page(folder) -> Page:
    return Page(write_sweep_report(folder).read_text(encoding="utf-8"))


def test_a_sweep_leaves_a_page_its_figures_and_markdown(tmp_path):
    found = page(write_sweep(tmp_path))
    assert "16 runs compared" in found.text
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"along-tokens", "runs", "splitting"}
    assert {"run-table", "value-table", "split-table", "trend-table", "figure-along-tokens"} <= set(found.ids)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# Every promise held\n")
    assert "](figures/along-tokens.png)" in text


def test_a_folder_with_runs_of_every_kind_is_no_obstacle(tmp_path):
    for kind, records in KINDS.items():
        write_run(tmp_path / kind, records, overrides=(f"task={kind}",), summary={"task": kind})
    write_run(tmp_path / "killed", [attack_record()], finished=False, tail='{"cut')
    found = page(tmp_path)
    assert {f"run-table-{kind}" for kind in KINDS} < set(found.tables)
    assert len(found.tables["run-table-attack"]) == 3  # head, the run, and the one that was killed
    assert "1 line of records could not be read" in found.text
    assert "Runs that failed or did not finish" in found.text


def test_markup_in_settings_and_folders_stays_text(tmp_path):
    write_run(tmp_path / "<b>&", [attack_record(model=EVIL)], overrides=(f"model={EVIL}", "tokens=$x_{"))
    write_run(tmp_path / "1", [attack_record()])
    found = page(tmp_path)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert not [address for address in found.addresses if "//" in address]


def test_a_single_run_gets_its_own_report(tmp_path):
    assert "layer by layer" in page(write_run(tmp_path / "run")).text


def test_runs_link_to_their_own_reports(tmp_path):
    write_report(write_run(tmp_path / "0", [attack_record()]))
    write_run(tmp_path / "1", [attack_record()])
    addresses = page(tmp_path).addresses
    assert "0/report.html" in addresses
    assert "1/report.html" not in addresses


def test_the_command_writes_the_report_and_names_it(tmp_path, capsys):
    write_sweep(tmp_path, lengths=(16,))
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_bad_input_is_one_sentence_and_status_two(tmp_path, name):
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-m", "robust_attn.report", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_help_is_fast():
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "robust_attn.report", "--help"], capture_output=True, check=True)
    assert b"DIR" in done.stdout
    assert time.perf_counter() - started < 2.0
    heavy = "{'matplotlib', 'wandb', 'jinja2', 'torch'}"
    code = f"import sys, robust_attn.report.__main__; print({heavy} & {{*sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"


def test_figures_by_name_for_scripts(tmp_path):
    folder = write_run(tmp_path / "run", KINDS["attack"])
    figures = ra.run_figures(folder)
    assert set(figures) == {"layers", "ladder", "convergence"}
    figures["layers"].savefig(tmp_path / "layers.png")
    assert not (folder / "figures").exists()  # nothing is written that was not asked for
    assert {"along-tokens", "runs", "splitting"} <= set(ra.run_figures(str(write_sweep(tmp_path / "sweep"))))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ra.UserError, match="no runs below"):
        ra.run_figures(tmp_path / "empty")
