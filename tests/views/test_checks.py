"""What is promised about layers: for which inputs, against which perturbations, how surely."""

from dataclasses import replace

import pytest

from robust_attn.records.parts import BoundPart, BudgetPart, Certified
from robust_attn.types import Covers, Scope, Verdict
from robust_attn.views.checks import check_headline, check_statement, checks_view
from robust_attn.views.view import Tone
from tests.records.samples import attack_record, certify_record

from .runs import NOTHING, UNKNOWN, run_of


def promise(*checks) -> str:
    return check_statement(checks, "text").promises[0]


def covered(covers: Covers | None, **fields: object):
    certified = Certified(bound="local.hull", output_change=0.3141, failure_probability=0.0, covers=covers)
    return attack_record(3, certified=certified, **fields)


def test_the_promise_names_inputs_perturbation_layer_and_amount():
    one = covered(Covers.ATOMS, copies=1)
    assert promise(one, replace(one, sample=1)) == (
        "For each of the 2 texts tested, any perturbation that moves its 3 tokens by at most 0.01 in root mean square, "
        "without splitting any of them, changes the output of layer 3 by at most 0.315 (root mean square over the "
        "tokens)."
    )


def test_of_several_radii_the_promise_speaks_of_the_largest_that_all_layers_have():
    """0.01 and 0.1 at layer 3. With a layer 4 at 0.01 alone only that is common, and the larger promise covers it."""
    small = covered(Covers.ATOMS, copies=1)
    certified = replace(small.certified, output_change=5.0)
    large = replace(small, certified=certified, budget=replace(small.budget, radius=0.1))
    assert "at most 0.1 in root mean square" in promise(small, large)
    assert "layer 3 by at most 5.00" in promise(small, large)
    elsewhere = promise(small, large, replace(small, layer=4))
    assert "at most 0.01 in root mean square" in elsewhere
    assert "from 0.315 in layer 4 to 5.00 in layer 3" in elsewhere


@pytest.mark.parametrize(
    ("covers", "said", "limit"),
    [
        (Covers.ATOMS, "without splitting any", "split into pieces"),
        (Covers.COPIES, "split as in this attack (into up to 2 pieces", "split in other ways"),
        (Covers.MEASURES, "however they are split, no piece beyond norm 12.5,", None),
    ],
)
def test_prose_and_table_and_limits_speak_of_one_class_of_perturbations(covers, said, limit):
    check = covered(covers, budget=BudgetPart(kind="wasserstein", radius=0.01, support=12.55))
    view = checks_view(run_of(check))
    assert said in view.statement.promises[0]
    assert ("split" in view.statement.limits) == (limit is not None)
    assert (limit or "") in view.statement.limits
    assert ("at will" in view.tables[0].note) == (covers is Covers.MEASURES)
    both = [check, replace(covered(Covers.INPUTS), layer=1)]
    assert "Covers" in [column.title for column in checks_view(run_of(*both)).tables[0].columns]


def test_the_promise_for_all_splits_of_the_context_stands_beside_that_for_the_attack():
    """Where a sample has none there is none for its layer, and no sentence about all of them."""
    beside = Certified(bound="context.hull", output_change=2.5141, covers=Covers.CONTEXT, context=8192.0)
    one, other = (replace(covered(Covers.COPIES, in_context=part), sample=n) for n, part in enumerate((beside, None)))
    view = checks_view(run_of(one))
    assert "into pieces of at least 1/8192 of the whole each" in view.statement.promises[0]
    assert "none by more than 2.52." in view.statement.promises[0]
    assert "However split" in [column.title for column in view.tables[0].columns]
    assert "However" not in checks_view(run_of(one, other)).statement.promises[0]


def test_a_promise_in_a_context_says_how_light_a_piece_may_be():
    certified = Certified(bound="context.hull", output_change=0.3, covers=Covers.CONTEXT, context=8192.0)
    check = attack_record(certified=certified)
    assert "however they are split into pieces of at least 1/8192 each," in promise(check)
    assert "lighter pieces of tokens" in check_statement([check], "text").limits


def test_of_several_contexts_the_promise_speaks_of_the_longest_that_all_layers_have():
    """Pieces as light as one of 10^9, with the change that is allowed there; where a layer lacks that one, of all."""
    part = Certified(bound="context.hull", output_change=0.3, covers=Covers.CONTEXT, context=32.0)
    longer = replace(part, output_change=0.7, context=1e9)
    first, second = (replace(attack_record(), certified=each) for each in (part, longer))
    said = promise(first, second)
    assert "of at least 1/10⁹ each" in said
    assert "at most 0.700" in said
    elsewhere = replace(first, layer=first.layer + 1)
    said = promise(first, second, elsewhere)
    assert "of at least 1/32 each" in said
    assert "0.300 in layer" in said


def test_records_of_old_cover_what_their_bound_speaks_of():
    bounds = (BoundPart(name="split.hull", output_change=0.3, scope=Scope.MEASURES),)
    certified = Certified(bound="split.hull", output_change=0.3)
    assert "however they are split" in promise(attack_record(certified=certified, bounds=bounds))
    assert "split as in this attack" in promise(attack_record(certified=replace(certified, bound="local.hull")))


def test_several_promises_speak_of_what_all_of_them_cover():
    assert "without splitting any" in promise(covered(Covers.MEASURES), covered(Covers.ATOMS))


def test_the_promise_says_which_layers_it_leaves_out():
    assert "Nothing is promised for layer 1." in promise(attack_record(0), attack_record(1, certified=NOTHING))


def test_what_is_promised_for_samples_of_different_radii_holds_at_the_smallest():
    one, other = (attack_record(budget=BudgetPart(kind="wasserstein", radius=radius)) for radius in (1.7, 1.5))
    assert "at most 1.5 in root" in promise(one, replace(other, sample=1))


@pytest.mark.parametrize("kind", ["wasserstein", "frobenius", "per_token", "something new"])
def test_every_budget_has_words(kind):
    assert "0.01" in promise(attack_record(budget=BudgetPart(kind=kind, radius=0.01)))


def test_a_broken_certificate_promises_nothing():
    broken = attack_record(1, verdict=Verdict.VIOLATED)
    assert promise(attack_record(0), broken).startswith("Nothing is promised")


@pytest.mark.parametrize(
    ("checks", "tone", "title"),
    [
        ([attack_record()], Tone.HOLDS, "Every promise held"),
        ([certify_record()], Tone.HOLDS, "Every layer is certified"),
        ([attack_record(), attack_record(1, verdict=Verdict.VACUOUS)], Tone.VACUOUS, "some say nothing new"),
        ([attack_record(verdict=Verdict.VACUOUS)] * 4, Tone.VACUOUS, "none says anything new"),
        ([attack_record(verdict=Verdict.VACUOUS), attack_record(2, **UNKNOWN)], Tone.UNKNOWN, "Not every promise"),
    ],
)
def test_the_headline_follows_the_worst_verdict(checks, tone, title):
    headline = check_headline(checks)
    assert headline.tone is tone
    assert title in headline.title


def test_promises_that_say_nothing_new_stand_all_the_same():
    tile = checks_view(run_of(*[attack_record(s, verdict=Verdict.VACUOUS) for s in range(4)])).tiles[0]
    assert (tile.label, tile.number) == ("Promises that stand", "4 of 4")
    assert "4 no better than the trivial limit" in tile.meaning


def test_failure_probabilities_add_up_over_the_promises():
    checks = [attack_record(layer, sample) for layer in range(6) for sample in range(4)]
    assert "at most 1 in 41 million" in check_statement(checks, "text").confidence


def test_confidence_and_limits_speak_of_the_promise_for_all_splits_too():
    """The certificate is certain, the promise beside it is not, and both stand in the report."""
    beside = Certified(
        bound="context.second_order", output_change=1.0, failure_probability=1e-9, covers=Covers.CONTEXT, context=8192.0
    )
    alone, both = (check_statement([covered(Covers.COPIES, in_context=part)], "text") for part in (None, beside))
    assert "No chance is involved" in alone.confidence
    assert "1 in 1 billion" in both.confidence
    assert "split in other ways" in alone.limits
    assert "lighter pieces of tokens" in both.limits


@pytest.mark.parametrize(
    ("certified", "of_radius", "said"),
    [
        (0.0, 1e-9, "1 in 1 billion"),
        (1e-9, 0.0, "1 in 1 billion"),
        (None, 0.5, "no confidence"),
        (0.0, 0.0, "No chance"),
    ],
)
def test_confidence_covers_the_radius_too(certified, of_radius, said):
    """One estimate, one event: the larger of both probabilities, not their sum; unknown stays unknown."""
    record = certify_record()
    record = replace(
        record,
        certified=replace(record.certified, failure_probability=certified),
        certified_radius=replace(record.certified_radius, failure_probability=of_radius),
    )
    assert said in check_statement([record], "text").confidence


def test_figures_are_those_that_the_records_have_numbers_for():
    def names(*checks):
        return {panel.name for panel in checks_view(run_of(*checks)).panels}

    assert names(attack_record(0), attack_record(1)) == {"layers", "ladder", "convergence"}
    assert names(attack_record(0)) == {"ladder", "convergence"}
    assert names(certify_record(0), certify_record(1)) == {"layers", "ladder"}
    empty = {"certified": NOTHING, "bounds": (), "convergence": (None, None)}
    assert names(attack_record(0, **empty), attack_record(1, **empty)) == {"layers"}
    wider = replace(attack_record(0), budget=BudgetPart(kind="wasserstein", radius=0.1))
    assert "radii" in names(attack_record(0), wider)


def test_captions_speak_of_an_attack_only_where_there_was_one():
    attacked, certified = (checks_view(run_of(make(0), make(1))) for make in (attack_record, certify_record))
    assert "orange" in attacked.panels[0].caption
    assert "orange" not in certified.panels[0].caption
    titles = [column.title for table in certified.every_table for column in table.columns]
    assert not {"Worst sample", "Observed gain", "Tightness", "Attack reached"} & set(titles)
    assert "attack" not in certified.statement.promises[0]
