"""The command line as a user meets it: in this process, and in one of its own where that is the point."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from robust_attn.cli import run_command_line
from robust_attn.pipeline import checks
from robust_attn.types import ExitStatus, Verdict

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("model=toy", "layers=[0]", "tokens=4", "samples=1", "tracker=none", "attack=random")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "robust_attn", *arguments], cwd=cwd, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """What a command left on the screen, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("robust_attn:")]


@pytest.fixture
def inside(tmp_path, monkeypatch, capsys) -> Callable[..., Shown]:
    """Run the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Shown:
        monkeypatch.setattr(sys, "argv", ["robust_attn", *arguments])
        capsys.readouterr()
        status = run_command_line()
        return Shown(status, *capsys.readouterr())

    return run


def one_sentence(shown: Shown, *words: str) -> None:
    assert shown.status == 2, shown.err
    assert "Traceback" not in shown.err
    (sentence,) = shown.sentences
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=bart"], ["no model 'bart'", "minilm"]),
        (["attack=fgsmm"], ["no attack 'fgsmm'", "mass_split"]),
        (["experiment=figure99"], ["no experiment 'figure99'"]),
        (["tokenz=3"], ["no setting 'tokenz'"]),
        (["attack=move", "attack.copies=3"], ["no setting 'attack.copies' with the attack chosen"]),
        (["tokens=many"], ["tokens must be a whole number, got many."]),
        (["budget.radius=large"], ["budget.radius must be a number, got large."]),
        (["certificate.samples=1.5"], ["certificate.samples must be a whole number, got 1.5."]),
        (["budget.radius=-1"], ["budget.radius", "-1"]),
        (["task=certify", "tolerance=0"], ["tolerance", "above 0", "0.0"]),
        (["task=certify", "task.tolerance=nan"], ["tolerance", "above 0", "nan"]),
        (["task=certify", "tolerance=little"], ["tolerance", "little"]),
        (["tolerance=0.1"], ["task=certify", "task=attack"]),
        (["data=text"], ["data.path must be given"]),
        (["model=toy", "layers=[7]"], ["7"]),
        (["model=toy", "data=text", "data.path=missing.txt"], ["missing.txt"]),
        (["model=toy", "data=text", "data.path=/"], ["/ is a folder", "pattern"]),
        (["model=bert", "model.weights=nowhere"], ["nowhere"]),
        (["model=toy", "data=digits"], ["image"]),
        (["model=vit", "data=prose"], ["model=vit reads images", "data=prose is text"]),
        (["model=vit", "tokens=8"], ["tokens=8 would be ignored", "leave tokens out"]),
        (["model=toy", "data=images", "data.path=.", "tokens=8"], ["tokens=8 would be ignored"]),
        (["data=text", "data.path=/tmp/é.txt"], ["put it in quotes", """'data.path="/tmp/é.txt"'"""]),
        (["data=text", "data.path="], ["data.path is empty"]),
        (["data=rows"], ["data.path must be given"]),
        (["model=toy", "data=rows", "data.path=missing.csv"], ["there is no file missing.csv"]),
        (["data=rows", "data.path=a.csv", "data.first=-1"], ["data.first", "at least 0", "-1"]),
        (
            ["data=rows", "data.path=a.csv", "data.special_tokens=perhaps"],
            ["data.special_tokens must be true or false, got perhaps."],
        ),
        (["model.weights="], ["model.weights is empty", "auto, random, pretrained or a folder"]),
        ([f"seed={10**30}"], ["seed", "from 0 to 4294967295"]),
        (["fail_if=certified_radius<0.1"], ["task=attack have no certified_radius", "output_change, tightness"]),
        (["task=certify", "fail_if=certified_radius<0.1"], ["where a tolerance is given"]),
        (["fail_if=[tightness<0.1,tightnes<0.1]"], ["no quantity 'tightnes'"]),
        (["fail_if=tightness<0.1,verdict=VACUOUS"], ["several stand in a list"]),
        (["fail_if=tightness"], ["'tightness' is no condition"]),
    ],
)
def test_wrong_input_is_one_sentence_and_status_two(arguments, words, inside):
    one_sentence(inside(*arguments, "tracker=none"), *words)


@pytest.mark.parametrize("argument", ["tokenz=3", "budget.radius=-1"])
def test_a_process_ends_with_that_status_and_says_nothing_else(argument, tmp_path):
    """One is found by Hydra, the other in the job."""
    done = command(argument, "tracker=none", cwd=tmp_path)
    one_sentence(Shown(done.returncode, done.stdout, done.stderr), argument.split("=")[0])
    assert len(done.stderr.splitlines()) == 1


def test_text_too_short_says_how_much_there_is(tmp_path, inside):
    (tmp_path / "short.txt").write_text("three little words")
    one_sentence(inside("model=toy", "data=text", "data.path=short.txt", "tracker=none"), "3 tokens", "128")


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("text,label\none,0\n", ["data.text=txt"], ["no column 'txt'", "text, label"]),
        ("text,label\none,0\n", ["data.label=y"], ["no column 'y'", "text, label"]),
        ("", [], ["rows.csv is empty"]),
        ("text,label\none,0\ntwo\n", [], ["line 3", "expected 2 cells"]),
        ("text,label\none,0\n", ["samples=2"], ["has 1 rows, but 2 samples were asked for"]),
    ],
)
def test_rows_that_cannot_be_read_are_one_sentence(content, arguments, words, tmp_path, inside):
    (tmp_path / "rows.csv").write_text(content)
    one_sentence(inside("model=toy", "data=rows", "data.path=rows.csv", *arguments, "tracker=none"), *words)


def test_more_tokens_than_positions(inside):
    sizes = "model.sizes={hidden_size:32,num_hidden_layers:1,num_attention_heads:4,max_position_embeddings:16}"
    one_sentence(inside("model=bert", "model.weights=random", sizes, "tokens=17", "tracker=none"), "16", "17")


def test_weights_of_another_architecture(tmp_path, inside):
    from safetensors.torch import save_file
    from torch import zeros

    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    save_file({"x": zeros(1)}, folder / "model.safetensors")
    one_sentence(inside("model=bert", f"model.weights={folder}", "tracker=none"), "gpt2", "bert")


def test_the_version_is_our_own(inside):
    assert inside("--version") == Shown(0, f"robust_attn {version('robust_attn')}\n", "")


def test_unknown_option_is_status_two_without_traceback(tmp_path):
    done = command("--no-such-option", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "unrecognized arguments: --no-such-option" in done.stderr


def test_quick_answers_import_no_torch(tmp_path):
    """Speed by cause rather than by clock: what answers at once has not imported torch, transformers or wandb."""
    code = (
        "import sys\nfrom robust_attn.cli import run_command_line\n"
        "for arguments in (['--help'], ['--cfg', 'job'], ['tokenz=3'], ['budget.radius=-1']):\n"
        "    sys.argv = ['robust_attn', *arguments]\n"
        "    try:\n        run_command_line()\n    except SystemExit:\n        pass\n"
        "    heavy = {'torch', 'transformers', 'wandb', 'matplotlib', 'ot'} & set(sys.modules)\n"
        "    print('HEAVY', sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.count("HEAVY []") == 4, done.stdout + done.stderr


def test_main_job_leaves_the_files_of_the_contract(tmp_path):
    done = command("attack=mass_split", "model=toy", "tokens=6", "samples=2", "attack.steps=3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").glob("*/*-mass_split-toy")
    names = {path.name for path in folder.iterdir()}
    expected = {".hydra", "environment.json", "records.jsonl", "summary.json", "report.html", "figures", "wandb"}
    assert names >= expected
    assert "report.html" in done.stdout
    assert "peak memory" in done.stdout
    assert len((folder / "records.jsonl").read_text().splitlines()) == 4


@pytest.mark.slow
def test_certified_radius_from_the_command_line(tmp_path):
    done = command(
        "task=certify", "tolerance=0.1", "model=toy", "tokens=6", "samples=2", "tracker=none",
        f"hydra.run.dir={tmp_path / 'here'}", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Radius" in done.stdout
    records = [json.loads(line) for line in (tmp_path / "here" / "records.jsonl").read_text().splitlines()]
    assert [(r["layer"], r["head"]) for r in records[::2]] == [(n, head) for n in (0, 1) for head in (None, 0, 1)]
    for record in records:
        radius, certified = record["certified_radius"]["radius"], record["certified"]["output_change"]
        assert (radius > record["budget"]["radius"]) == (certified < 0.1)
    assert "Certified radius" in (tmp_path / "here" / "report.html").read_text()


def test_sweep_runs_every_job_and_a_bad_one_does_not_stop_the_others(tmp_path, inside):
    done = inside("-m", "model=toy", "attack=move,random", "tokens=4,0", "tracker=none", "samples=1", "layers=[0]")
    assert done.status == 2
    assert done.err.count("tokens must be at least 1") == 2
    summaries = list((tmp_path / "runs").glob("*/*-sweep/*/summary.json"))
    assert len(summaries) == 2
    assert [line for line in done.out.splitlines() if line.startswith("job ")] == [
        "job 1 of 4: attack=move tokens=4", "job 2 of 4: attack=move tokens=0",
        "job 3 of 4: attack=random tokens=4", "job 4 of 4: attack=random tokens=0",
    ]  # fmt: skip
    assert done.out.count("wrong setting") == 2  # in the table over all jobs
    (report,) = (tmp_path / "runs").glob("*/*-sweep/report.html")
    assert f"report over the sweep: {report}" in done.out
    assert all(json.loads(path.read_text())["status"] == "complete" for path in summaries)


@pytest.mark.slow
def test_a_job_that_fails_hides_no_violated_certificate_of_another(tmp_path, monkeypatch, inside):
    """Job 0 stops with an error, job 1 finds a certificate violated: both sentences, and the worse status."""
    honest = checks.attack_records

    def attack_records(*arguments, seed, **options):
        if seed == 0:
            raise RuntimeError("out of luck")
        records = honest(*arguments, seed=seed, **options)
        return (replace(record, verdict=Verdict.VIOLATED) for record in records)

    monkeypatch.setattr(checks, "attack_records", attack_records)
    done = inside("-m", *SMALL, "seed=0,1", "hydra.sweep.dir=sweep")
    assert done.status is ExitStatus.VIOLATED
    assert [sentence.split(" (")[0] for sentence in done.sentences] == [
        "robust_attn: RuntimeError: out of luck",
        "robust_attn: an observed output change exceeds its certificate",
    ]
    states = [json.loads(path.read_text())["status"] for path in tmp_path.glob("sweep/*/summary.json")]
    assert sorted(states) == ["complete", "failed"]


@pytest.mark.slow
def test_a_condition_that_holds_in_one_job_is_the_status_of_the_sweep(tmp_path, inside):
    done = inside("-m", *SMALL, "budget.radius=1e-6,1e-3", "fail_if=output_change>1e-5", "hydra.sweep.dir=sweep")
    assert done.status is ExitStatus.FAIL_IF, done.err
    (sentence,) = done.sentences
    assert "fail_if: output_change>1e-05 holds at layer 0 sample 0 (" in sentence
    assert re.search(r"HOLDS +fail_if +random-toy", done.out)
    assert "output_change&gt;1e-05 holds at random-toy" in (tmp_path / "sweep" / "report.html").read_text()


@pytest.mark.slow
def test_a_report_over_the_sweep_that_fails_is_one_sentence_beside_finished_jobs(tmp_path, monkeypatch, inside):
    def fail(folder):
        raise ValueError(f"nothing can be drawn in {folder.name}")

    monkeypatch.setattr("robust_attn.report.write_sweep_report", fail)
    done = inside("-m", *SMALL, "hydra.sweep.dir=sweep")
    assert done.status is ExitStatus.FAILED
    (sentence,) = done.sentences
    assert "nothing can be drawn in sweep" in sentence
    assert len(list(tmp_path.glob("sweep/*/report.html"))) == 1


def test_a_folder_with_a_run_is_not_written_again_nor_its_settings(tmp_path, inside):
    assert inside(*SMALL, "hydra.run.dir=here").status == 0
    before = {path: path.read_bytes() for path in (tmp_path / "here").rglob("*") if path.is_file()}
    assert tmp_path / "here" / ".hydra" / "config.yaml" in before
    one_sentence(inside(*SMALL, "seed=3", "hydra.run.dir=here"), "already holds a run")
    assert {path: path.read_bytes() for path in (tmp_path / "here").rglob("*") if path.is_file()} == before


SAME_SECOND = """
import sys
from datetime import datetime
import hydra.core.utils
from robust_attn import cli

class Noon(datetime):
    @classmethod
    def now(cls):
        return cls(2026, 1, 2, 12)

hydra.core.utils.datetime = Noon  # what `now` in conf/config.yaml asks
sys.argv = ["robust_attn", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.slow
def test_the_second_that_begins_in_the_same_second_takes_another_name(tmp_path, monkeypatch, inside):
    class Noon(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 1, 2, 12)

    monkeypatch.setattr("hydra.core.utils.datetime", Noon)
    assert [inside(*sweep, *SMALL, "tokens=0").status for sweep in ((), (), ("-m",), ("-m",))] == [2, 2, 2, 2]
    names = {path.name for path in (tmp_path / "runs" / "2026-01-02").iterdir()}
    assert names == {f"12-00-00-{name}" for name in ("random-toy", "random-toy-2", "sweep", "sweep-2")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(("tokens=4",), {"12-00-00-random-toy", "12-00-00-random-toy-2"}, id="runs"),
        pytest.param(("-m", "tokens=4,5"), {"12-00-00-sweep", "12-00-00-sweep-2"}, id="sweeps"),
    ],
)
def test_two_that_begin_in_the_same_second_have_a_folder_each(arguments, names, tmp_path):
    """Two processes at once, for both of which it is noon: nothing is refused, and nothing is mixed."""
    given = (*arguments, "model=toy", "attack=random", "samples=1", "layers=[0]", "tracker=none")
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SAME_SECOND, *given], cwd=tmp_path, env=environment, stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    errors = [process.communicate(timeout=300)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert {path.name for path in (tmp_path / "runs" / "2026-01-02").iterdir()} == names
    for name in names:
        folder = tmp_path / "runs" / "2026-01-02" / name
        runs = list(folder.glob("random-toy-*")) if "sweep" in name else [folder]
        assert len(runs) == (2 if "sweep" in name else 1)
        assert {path.parent for path in folder.rglob("records.jsonl")} == set(runs)
        for run in runs:
            assert json.loads((run / "summary.json").read_text())["status"] == "complete"
            assert len((run / "records.jsonl").read_text().splitlines()) == 1
            assert (run / ".hydra" / "config.yaml").is_file()


@pytest.mark.slow
def test_v_prints_a_line_for_every_record_and_without_it_there_is_none(tmp_path):
    small = ("model=toy", "attack=random", "tokens=4", "samples=2", "layers=[0]", "tracker=none")
    loud, quiet = command("-v", *small, cwd=tmp_path), command(*small, "hydra.run.dir=quiet", cwd=tmp_path)
    assert loud.returncode == quiet.returncode == 0, loud.stderr + quiet.stderr
    lines = [line for line in loud.stdout.splitlines() if line.startswith("layer 0, sample")]
    assert [line.split(":")[0] for line in lines] == [f"layer 0, sample {sample}, tokens 4" for sample in (0, 1)]
    assert "layer 0, sample" not in quiet.stdout
    assert "\x1b" not in loud.stdout + quiet.stdout  # nothing is drawn where there is no terminal
