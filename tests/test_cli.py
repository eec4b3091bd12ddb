"""The command line as a user meets it: a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from robust_attn import tasks
from robust_attn.cli import run_command_line
from robust_attn.types import ExitStatus

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "robust_attn", *arguments], cwd=cwd, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("robust_attn:")]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=bart"], ["no model 'bart'", "minilm"]),
        (["attack=fgsmm"], ["no attack 'fgsmm'", "mass_split"]),
        (["experiment=figure99"], ["no experiment 'figure99'"]),
        (["tokenz=3"], ["no setting 'tokenz'"]),
        (["attack=move", "attack.copies=3"], ["no setting 'attack.copies'"]),
        (["tokens=many"], ["tokens", "many"]),
        (["budget.radius=-1"], ["budget.radius", "-1"]),
        (["task=certify", "tolerance=0"], ["tolerance", "above 0", "0.0"]),
        (["task=certify", "task.tolerance=nan"], ["tolerance", "above 0", "nan"]),
        (["task=certify", "tolerance=little"], ["tolerance", "little"]),
        (["tolerance=0.1"], ["task=certify", "task=attack"]),
        (["data=text"], ["data.path must be given"]),
        (["model=toy", "layers=[7]"], ["7"]),
        (["model=toy", "data=text", "data.path=missing.txt"], ["missing.txt"]),
        (["model=bert", "model.weights=nowhere"], ["nowhere"]),
        (["model=toy", "data=digits"], ["image"]),
        (["data=text", "data.path=/tmp/é.txt"], ["put it in quotes", """'data.path="/tmp/é.txt"'"""]),
        (["data=text", "data.path="], ["data.path is empty"]),
        (["model.weights="], ["model.weights is empty", "auto, random, pretrained or a folder"]),
        ([f"seed={10**30}"], ["seed", "from 0 to 4294967295"]),
    ],
)
def test_wrong_input_is_one_sentence_and_status_two(arguments, words, tmp_path):
    one_sentence(command(*arguments, "tracker=none", cwd=tmp_path), *words)


def test_text_too_short_says_how_much_there_is(tmp_path):
    (tmp_path / "short.txt").write_text("three little words")
    done = command("model=toy", "data=text", "data.path=short.txt", "tracker=none", cwd=tmp_path)
    one_sentence(done, "3 tokens", "128")


def test_more_tokens_than_positions(tmp_path):
    sizes = "model.sizes={hidden_size:32,num_hidden_layers:1,num_attention_heads:4,max_position_embeddings:16}"
    done = command("model=bert", "model.weights=random", sizes, "tokens=17", "tracker=none", cwd=tmp_path)
    one_sentence(done, "16", "17")


def test_weights_of_another_architecture(tmp_path):
    from safetensors.torch import save_file
    from torch import zeros

    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    save_file({"x": zeros(1)}, folder / "model.safetensors")
    one_sentence(command("model=bert", f"model.weights={folder}", "tracker=none", cwd=tmp_path), "gpt2", "bert")


def test_unknown_option_is_status_two_without_traceback(tmp_path):
    done = command("--no-such-option", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "unrecognized arguments: --no-such-option" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"], ["tokenz=3"], ["budget.radius=-1"]])
def test_quick_answers_import_no_torch(arguments, tmp_path):
    """Speed by cause rather than by clock: what answers at once has not imported torch, transformers or wandb."""
    code = (
        "import sys\nfrom robust_attn.cli import run_command_line\nsys.argv = ['robust_attn', *sys.argv[1:]]\n"
        "try:\n    run_command_line()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'wandb', 'matplotlib', 'ot'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "HEAVY []" in done.stdout, done.stdout + done.stderr


def test_main_job_leaves_the_files_of_the_contract(tmp_path):
    done = command("attack=mass_split", "model=toy", "tokens=6", "samples=2", cwd=tmp_path)
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
    assert "for 0.1" in done.stdout
    records = [json.loads(line) for line in (tmp_path / "here" / "records.jsonl").read_text().splitlines()]
    assert [(r["layer"], r["head"]) for r in records[::2]] == [(n, head) for n in (0, 1) for head in (None, 0, 1)]
    for record in records:
        radius, certified = record["certified_radius"]["radius"], record["certified"]["output_change"]
        assert (radius > record["budget"]["radius"]) == (certified < 0.1)
    assert "Certified radius" in (tmp_path / "here" / "report.html").read_text()


def test_sweep_runs_every_job_and_a_bad_one_does_not_stop_the_others(tmp_path):
    done = command("-m", "model=toy", "attack=move,random", "tokens=4,0", "tracker=none", "samples=1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("tokens must be at least 1") == 2
    summaries = list((tmp_path / "runs").glob("*/*-sweep/*/summary.json"))
    assert len(summaries) == 2
    assert all(json.loads(path.read_text())["status"] == "complete" for path in summaries)


def test_a_job_that_fails_hides_no_violated_certificate_of_another(tmp_path, monkeypatch, capsys):
    """Job 0 stops with an error, job 1 finds a certificate violated: both sentences, and the worse status."""
    honest = tasks.attack_records

    def attack_records(*arguments, seed, **options):
        if seed == 0:
            raise RuntimeError("out of luck")
        return ({**record, "verdict": "VIOLATED"} for record in honest(*arguments, seed=seed, **options))

    monkeypatch.setattr(tasks, "attack_records", attack_records)
    monkeypatch.chdir(tmp_path)
    small = ("model=toy", "layers=[0]", "tokens=4", "samples=1", "tracker=none", "attack=random")
    monkeypatch.setattr(sys, "argv", ["robust_attn", "-m", *small, "seed=0,1", "hydra.sweep.dir=sweep"])
    assert run_command_line() is ExitStatus.VIOLATED
    sentences = [line for line in capsys.readouterr().err.splitlines() if line.startswith("robust_attn:")]
    assert [sentence.split(" (")[0] for sentence in sentences] == [
        "robust_attn: RuntimeError: out of luck",
        "robust_attn: an observed output change exceeds its certificate",
    ]
    states = [json.loads(path.read_text())["status"] for path in sorted(tmp_path.glob("sweep/*/summary.json"))]
    assert states == ["failed", "complete"]


def test_a_folder_with_a_run_is_not_written_again(tmp_path):
    arguments = ("model=toy", "tracker=none", "samples=1", "tokens=4", f"hydra.run.dir={tmp_path / 'here'}")
    assert command(*arguments, cwd=tmp_path).returncode == 0
    before = (tmp_path / "here" / "records.jsonl").read_bytes()
    one_sentence(command(*arguments, cwd=tmp_path), "already holds a run")
    assert (tmp_path / "here" / "records.jsonl").read_bytes() == before


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


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(("tokens=4",), {"12-00-00-random-toy", "12-00-00-random-toy-2"}, id="runs"),
        pytest.param(("-m", "tokens=4,5"), {"12-00-00-sweep", "12-00-00-sweep-2"}, marks=pytest.mark.slow, id="sweeps"),
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
        runs = [folder / "0-random-toy", folder / "1-random-toy"] if "sweep" in name else [folder]
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
