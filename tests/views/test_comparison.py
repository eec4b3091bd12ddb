"""Many runs: what differs, what is comparable, and that plots are drawn over comparable runs alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from robust_attn.records.parts import BudgetPart
from robust_attn.types import Verdict
from robust_attn.views.comparison import comparison_view, headline, notes
from robust_attn.views.run_line import run_lines, swept_keys
from robust_attn.views.split_gain import split_gains, split_panel
from robust_attn.views.trends import along_panels, positive, trend_table, value_table
from robust_attn.views.view import Tone
from tests.records.samples import attack_record, certified, constant_record, observed, study_record
from tests.report.folders import grown

from .runs import KINDS, run_of

TOP = Path("sweep")


def job(number: int, *records, overrides: tuple[str, ...] = (), **fields: object):
    typed = dict(item.split("=") for item in overrides)
    said = {key: value for key, value in typed.items() if key in ("task", "model", "attack")}
    summary = {"status": "complete", "task": "attack", **said}
    return run_of(*records, folder=TOP / str(number), overrides=overrides, **({"summary": summary} | fields))


def sweep(lengths=(16, 32, 64, 128)):
    jobs = [(m, a, n) for m in ("minilm", "gpt2") for a in ("move", "mass_split") for n in lengths]
    return [
        job(i, *(grown(a, m, n, layer) for layer in range(3)), overrides=(f"attack={a}", f"model={m}", f"tokens={n}"))
        for i, (m, a, n) in enumerate(jobs)
    ]


def view(*runs):
    return comparison_view(TOP, runs, {})


def measured(tokens: int, number: int, *more: str):
    record = constant_record(tokens=tokens, value=tokens**0.5)
    return job(
        number, record, overrides=(f"tokens={tokens}", *more), summary={"status": "complete", "task": "lipschitz"}
    )


def rows(table):
    return [[cell.shown for cell in row] for row in table.rows]


def test_the_settings_that_differ_become_columns_beside_the_verdict():
    assert swept_keys(sweep()) == ("attack", "model", "tokens")
    (table,) = view(*sweep()).tables
    titles = [column.title for column in table.columns]
    assert titles[:5] == ["Run", "Verdicts", "attack", "model", "tokens"]
    assert rows(table)[0][:5] == ["0", "3 HOLDS", "move", "minilm", "16"]


def test_a_setting_left_at_its_default_is_read_from_the_run():
    first = job(0, attack_record(), overrides=("tokens=64", "seed=1"))
    second = job(1, attack_record(), config={"tokens": 32, "seed": 0})
    assert [line.settings for line in run_lines(TOP, [first, second])] == [
        {"tokens": "64", "seed": "1"},
        {"tokens": "3", "seed": "0"},
    ]


def test_a_setting_that_a_killed_run_never_told_is_not_a_swept_one():
    runs = [job(0, attack_record(), overrides=("seed=0",)), job(1, overrides=("seed=1",), summary=None)]
    assert swept_keys(runs) == ("seed",)


def test_exponents_are_fitted_per_group():
    table = trend_table(run_lines(TOP, sweep()))
    assert len(table.rows) == 8
    assert [row[4].value for row in table.rows] == pytest.approx([0.25] * 8)
    assert "attack=move, model=gpt2" in {row[2].shown for row in table.rows}


def test_a_swept_number_has_a_figure_and_a_swept_word_has_none():
    names = [panel.name for panel in view(*sweep()).panels]
    assert names == ["along-tokens", "runs", "splitting"]
    along = view(*sweep()).panels[0]
    assert len(along.lines) == 8
    assert all(len(points) == 4 for points in along.lines.values())
    words = [job(i, attack_record(attack=a), overrides=(f"attack={a}",)) for i, a in enumerate(("move", "random"))]
    assert [panel.name for panel in view(*words).panels] == ["runs"]


def test_groups_that_are_not_drawn_are_mentioned():
    runs = [
        job(i, attack_record(model=f"m{i % 10}", tokens=n), overrides=(f"model=m{i % 10}", f"tokens={n}"))
        for i, n in enumerate([16] * 10 + [32] * 10)
    ]
    assert "The first 8 of 10 groups are drawn." in view(*runs).panels[0].caption


def test_seeds_repeat_a_run_and_are_not_swept_against():
    runs = [measured(n, 10 * n + s, f"seed={s}") for n in (16, 64, 256) for s in (1, 2, 3)]
    (row,) = rows(trend_table(run_lines(TOP, runs)))
    assert row[:5] == ["lipschitz", "tokens", "all runs", "9", "0.5"]
    assert [panel.name for panel in along_panels(run_lines(TOP, runs))] == ["constant-tokens"]
    assert "seed" in [column.title for column in view(*runs).tables[0].columns]  # still a column


def test_measurements_are_compared_and_promise_nothing():
    found = view(*(measured(n, n) for n in (16, 64, 256)))
    assert found.statement.headline.tone is Tone.MEASURED
    assert found.statement.headline.title == "Measurements compared"
    assert "Local constant, at least" in [column.title for column in found.tables[0].columns]
    assert "Certified" not in [column.title for column in found.tables[0].columns]


def test_studies_are_compared_by_what_they_attained():
    runs = [job(r, study_record(value=r**2.0), overrides=(f"task.radius={r}",)) for r in (1, 2, 4)]
    assert [line.lipschitz for line in run_lines(TOP, runs)] == [1.0, 4.0, 16.0]
    assert rows(trend_table(run_lines(TOP, runs)))[0][:2] == ["lipschitz", "task.radius"]


def test_runs_of_every_kind_together_keep_their_verdicts_and_collapse_no_plot():
    """Axes are what was swept, and a figure holds only runs that have its numbers in one norm."""
    mixed = [
        job(i, *records, overrides=(f"task={kind}", f"tokens={i + 1}"))
        for i, (kind, records) in enumerate(KINDS.items())
    ]
    other = [replace(r, budget=BudgetPart(kind="frobenius", radius=0.1)) for r in KINDS["attack"]]
    found = view(*mixed, job(99, *other, overrides=("task=attack", "tokens=99")))
    assert not [panel.name for panel in found.panels if panel.name.startswith(("along", "constant"))]
    (runs,) = found.panels
    assert runs.name == "runs-wasserstein"
    assert len(runs.categories) == 2
    assert [table.title for table in found.tables] == [f"Runs of task={kind}" for kind in KINDS]
    assert [len(table.rows) for table in found.tables] == [2, *[1] * (len(KINDS) - 1)]
    assert all("Verdicts" in [column.title for column in table.columns] for table in found.tables)
    assert {"4 of 4", "no verdicts"} <= {cell for table in found.tables for row in rows(table) for cell in row}
    assert "different tasks" in found.statement.limits


def test_runs_that_share_no_sweep_are_not_compared_setting_by_setting():
    """Two runs typed with other settings, and a third with another tracker: nothing was swept."""
    runs = [
        job(0, attack_record(), overrides=("model=toy", "tokens=6")),
        job(1, attack_record(), overrides=("model=toy", "layers=[0]", "tracker=none")),
        job(2, attack_record(), overrides=("model=toy", "layers=[0]", "tracker.mode=online")),
    ]
    found = view(*runs)
    assert [panel.name for panel in found.panels] == ["runs"]
    assert found.details == ()
    assert "tracker" not in {column.title for table in found.tables for column in table.columns}


def test_a_promise_beyond_all_others_is_named_and_flattens_nothing():
    runs = [job(i, attack_record(certified=certified(c)), overrides=(f"seed={i}",)) for i, c in enumerate((1, 2, 1e90))]
    (panel,) = view(*runs).panels
    assert len(panel.categories) == 2
    assert "Far above the axis: 2 (1.00·10⁹⁰)" in panel.caption


def test_failed_and_unfinished_runs_are_shown_first_as_such():
    failed = job(1, summary={"status": "failed", "message": "no such layer <99>"})
    found = view(job(0, attack_record()), failed, job(2, attack_record(), summary=None))
    assert rows(found.tables[0]) == [["1", "failed", "0", "no such layer <99>"], ["2", "unfinished", "1", "—"]]
    assert "Status" in [column.title for column in found.tables[-1].columns]
    assert found.statement.headline.tone is Tone.UNKNOWN
    assert "2 runs failed or did not finish" in found.statement.headline.detail


@pytest.mark.parametrize(
    ("verdicts", "tone", "title"),
    [
        ([Verdict.HOLDS], Tone.HOLDS, "Every promise held"),
        ([Verdict.HOLDS, Verdict.VACUOUS], Tone.VACUOUS, "some say nothing new"),
        ([Verdict.VACUOUS, Verdict.VACUOUS], Tone.VACUOUS, "none says anything new"),
        ([Verdict.HOLDS, Verdict.UNKNOWN], Tone.UNKNOWN, "Not every promise"),
        ([Verdict.UNKNOWN, Verdict.VIOLATED], Tone.VIOLATED, "A promise was broken"),
        ([], Tone.UNKNOWN, "Not every promise"),
    ],
)
def test_the_worst_verdict_of_all_decides(verdicts, tone, title):
    runs = [job(i, attack_record(verdict=verdict)) for i, verdict in enumerate(verdicts)] or [job(0)]
    found = headline(run_lines(TOP, runs))
    assert (found.tone, title in found.title) == (tone, True)


def test_extremes_name_their_runs_and_notes_are_said_once():
    said = " ".join(view(*sweep()).statement.promises)
    assert "The strongest attack has gain" in said
    assert "model=minilm" in said
    noted = [job(i, attack_record(), environment={"weights_note": "random!"}, damaged_lines=1) for i in range(2)]
    assert notes(noted) == ("minilm: random!", "2 lines of records could not be read (cut or damaged).")


def test_best_and_worst_are_those_of_the_runs_with_that_value():
    lines = run_lines(TOP, sweep(lengths=(8, 16, 128)))
    found = [row for row in value_table(lines).rows if row[0].shown == "tokens"]
    assert [row[1].shown for row in found] == ["8", "16", "128"]  # as numbers, not as words
    for row in found:
        gains = [line.gain for line in lines if line.settings["tokens"] == row[1].shown]
        assert (row[2].value, row[3].value, row[4].value) == (len(gains), min(gains), max(gains))
    alone = run_lines(TOP, sweep()[:4])
    assert not value_table(alone).rows  # a key that differs in every run says nothing


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "bert", "[0,5]", ""])
def test_only_positive_finite_numbers_have_a_place_on_a_log_axis(text):
    assert positive(text) is None


def seen(attack: str, gain: float | None, *, layer: int = 0, sample: int = 0, **fields: object):
    return attack_record(layer, sample, attack=attack, observed=replace(observed(0.1), w2_gain=gain), **fields)


def pairs(*runs):
    return split_gains(run_lines(TOP, runs))


MOVED = job(0, seen("move", 2.0), seen("move", 4.0, sample=1), seen("move", 1.0, layer=3), overrides=("attack=move",))


def split(number: int, *records, more: tuple[str, ...] = ()):
    return job(number, *records, overrides=("attack=mass_split", *more))


def test_pairs_differ_in_the_attack_alone():
    (gain,) = pairs(MOVED, split(1, seen("mass_split", 3.0), seen("mass_split", 4.0, sample=1)))
    assert (gain.group, gain.layer, gain.pairs, gain.smallest, gain.largest) == ("all runs", 0, 2, 1.0, 1.5)
    assert gain.typical == pytest.approx(1.5**0.5)
    panel = split_panel((gain,))
    assert panel.words == "all runs, layer 0: 1.225 times (1 to 1.5, 2 pairs)"
    assert panel.ranges == ((0.0, 1.0, 1.5),)
    assert split_panel(()) is None


@pytest.mark.parametrize(
    "other",
    [
        {"tokens": 64},
        {"budget": BudgetPart(kind="wasserstein", radius=0.5)},
        {"weights": "other"},
        {"sample": 7},
        {"layer": 7},
        {"head": 0},
        {"observed": observed(0.0)},
    ],
)
def test_what_is_not_the_same_is_not_compared(other):
    assert pairs(MOVED, split(1, replace(seen("mass_split", 3.0), **other))) == ()


def test_settings_of_the_split_attack_are_groups_of_their_own_against_the_same_move():
    splits = [split(n, seen("mass_split", float(n)), more=(f"attack.copies={n}",)) for n in (3, 4)]
    assert [(gain.group, gain.largest) for gain in pairs(MOVED, *splits)] == [
        ("attack.copies=3", 1.5),
        ("attack.copies=4", 2.0),
    ]


def test_runs_of_different_settings_are_not_compared():
    other = split(1, seen("mass_split", 3.0), more=("dtype=float32",))
    assert pairs(MOVED, other) == ()
