"""Rows of different lengths through whole tasks, on a model that reads words."""

from __future__ import annotations

import pytest

from robust_attn.config.settings import settings_from
from robust_attn.types import ExitStatus, UserError
from robust_attn.work import Desk, Work
from tests.composed import QUICK, composed, run

TABLE = (
    "text,label\n"
    "one two three,0\n"
    "one two three four five six seven eight,1\n"
    "four five six,spam\n"
    "seven eight,1\n"
    "nine eight seven six,0\n"
)
SMALL = ("model=toy", "layers=[0]", "data=rows", "data.label=label", "data.first=1", "samples=4")
ROWS = [(0, 1, 1, 6, 2), (1, 2, "spam", 3, 0), (2, 3, 1, 2, 0), (3, 4, 0, 4, 0)]
"""With data.first=1 and tokens=6: sample 0 is row 1, of whose eight words two do not fit."""


class Listener(Desk):
    """Keeps what a task says and which tokens it leaves."""

    def __init__(self):
        self.said, self.words = [], {}

    def tell(self, sentence, *, loud=False):  # noqa: ARG002
        self.said.append(sentence)

    def inputs(self, tokens, spelled):
        self.words[tokens] = spelled


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "rows.csv").write_text(TABLE)
    return f"data.path={tmp_path / 'rows.csv'}"


def _records(*overrides):
    settings, desk = settings_from(composed(*QUICK, *SMALL, *overrides)), Listener()
    return list(settings.task.records(Work(settings, desk))), desk


def _known(records):
    return sorted((record.sample, record.row, record.label, record.tokens, record.cut) for record in records)


@pytest.mark.parametrize("attack", ["random", "duplicate"])  # together, and one by one
def test_an_attack_speaks_of_every_row_at_its_own_length(attack, rows):
    records, desk = _records(rows, f"attack={attack}")
    assert _known(records) == ROWS
    assert desk.said[-1] == "4 rows of 2 to 6 tokens, 1 of them cut at their end to keep to tokens=6; nothing is padded"
    for record in records:
        assert len(record.motion.rms) == len(desk.words[record.tokens][record.sample]) == record.tokens


def test_certificates_and_radii_name_rows_too(rows):
    assert _known(_records(rows, "task=certify", "task.heads=false")[0]) == ROWS
    assert _known(_records(rows, "task=tightness", "task.radii=[0.01]")[0]) == ROWS


def test_a_row_is_looked_at_once_where_more_room_changes_nothing(rows):
    records, _ = _records(rows, "task=lipschitz", "task.lengths=[2,4,16]", "task.windows=4")
    seen = [(row, tokens) for _, row, _, tokens, _ in _known(records)]
    assert seen == [(1, 2), (1, 4), (1, 8), (2, 2), (2, 3), (3, 2), (4, 2), (4, 4)]


def test_a_task_that_brings_its_own_tokens_takes_no_rows(rows):
    with pytest.raises(UserError, match="brings its own tokens"):
        _records(rows, "task=adversarial_layer")


@pytest.mark.slow
def test_a_report_names_rows_with_their_labels(rows, tmp_path):
    outcome, records, _, _ = run(tmp_path / "run", *SMALL, rows, "attack=random")
    assert (outcome.status, len(records)) == (ExitStatus.OK, 4)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "Worst row" in report
    assert "Row 2, label spam" in report


def test_bad_rows_are_told_of_before_a_model_is_loaded(rows, monkeypatch):
    def never(*_args, **_options):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("robust_attn.pipeline.layers.load_model", never)
    with pytest.raises(UserError, match="no column 'words'"):
        _records(rows, "data.text=words")
    with pytest.raises(AssertionError, match="a model was loaded"):
        _records(rows)


@pytest.mark.parametrize(
    "attack",
    ["random", pytest.param("move", marks=pytest.mark.slow), pytest.param("mass_split", marks=pytest.mark.slow)],
)
def test_a_sample_worked_on_alone_has_the_same_record_whichever_others_are_chosen(attack, rows):
    """Field by field: what is drawn, how long it is searched and what is promised depend on no other sample."""
    typed = (rows, f"attack={attack}", "certificate.seed=0")
    every, _ = _records(*typed, "only=[0,1,2,3]")
    apart = [record for only in ("[2]", "[0]", "[3,1]") for record in _records(*typed, f"only={only}")[0]]
    assert _known(every) == ROWS
    assert sorted(every, key=lambda record: record.sample) == sorted(apart, key=lambda record: record.sample)


def test_running_text_keeps_the_numbers_of_its_samples():
    settings = settings_from(composed(*QUICK, "model=toy", "layers=[0,1]", "attack=random", "samples=3", "only=[2]"))
    found = [(record.layer, record.sample) for record in settings.task.records(Work(settings))]
    assert found == [(0, 2), (1, 2)]


@pytest.mark.parametrize("only", ["[4]", "[]"])
def test_a_sample_that_is_not_there_is_told(only, rows):
    with pytest.raises(UserError, match="some of the samples 0 to 3"):
        _records(rows, f"only={only}")
