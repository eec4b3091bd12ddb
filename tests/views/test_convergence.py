"""Whether attacks had finished, as their own steps tell."""

import pytest

from robust_attn.views.convergence import FLOOR, convergence_panel, late_gain, still_missing
from tests.records.samples import attack_record, search_record


def test_what_is_missing_by_hand():
    """Of 0.4 at the end: 0.1 lacks three quarters, 0.3 one quarter, 0.4 nothing, which is drawn at the floor."""
    missing = dict(still_missing((0.1, None, 0.3, 0.4), 0.4))
    assert missing == pytest.approx({0.0: 0.75, 2.0: 0.25, 3.0: FLOOR})
    assert still_missing((0.1, 0.2), 0.4)[-1] == (1.0, 0.5)  # the end lies beyond the steps that were recorded
    assert still_missing((0.1, 0.2), None)[-1] == (1.0, FLOOR)
    assert still_missing((None,), None) == still_missing((0.0,), 0.0) == ()


def test_the_last_quarter_of_the_steps_decides():
    gaps = still_missing((1.0, 2.0, 3.0, 3.9, 4.0), 4.0)
    assert late_gain(gaps) == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ((0.1, 0.2, 0.3, 0.35, 0.4), "Not quite: the last quarter of its steps still gained up to 13 %; take more."),
        (
            (0.1, 0.3, 0.3999, 0.4, 0.4, 0.4),
            "Yes, as far as its own steps tell: the last quarter of them gained n",
        ),
    ],
)
def test_the_caption_answers_the_question_of_the_title(steps, answer):
    panel = convergence_panel([attack_record(change=0.4, convergence=steps)])
    assert panel.caption.startswith(answer)


def test_the_last_to_arrive_is_drawn_first_and_heads_are_left_out():
    early, late = attack_record(convergence=(0.1, 0.4, 0.4)), attack_record(sample=1, convergence=(0.1, 0.2, 0.4))
    panel = convergence_panel([early, late, attack_record(head=2)])
    assert list(panel.lines) == ["layer 0, sample 1", "layer 0, sample 0"]


def test_nothing_is_drawn_where_there_is_nothing_to_see():
    assert convergence_panel([attack_record(convergence=(None,))]) is None
    assert convergence_panel([attack_record(change=0.3, convergence=(0.3, 0.3, 0.3))]) is None


def test_searches_are_shown_by_the_constant_they_reached():
    panel = convergence_panel([search_record(0)], "search-convergence", "search")
    assert (panel.name, panel.x_label) == ("search-convergence", "search step")
