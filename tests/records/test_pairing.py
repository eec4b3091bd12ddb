"""Which records of two runs belong together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.records.pairing import pairing
from robust_attn.records.parts import BudgetPart
from robust_attn.types import UserError
from tests.records.samples import attack_record, certify_record, constant_record, layer_record, prediction_record


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_rows_that_both_have_are_paired_and_the_others_are_named(first, second):
    left = [prediction_record(sample, row=row) for sample, row in enumerate(sorted(first))]
    right = [prediction_record(sample, row=row) for sample, row in enumerate(sorted(second, reverse=True))]
    found = pairing(left, right)
    assert [(pair.first.row, pair.second.row) for pair in found.pairs] == [(n, n) for n in sorted(first & second)]
    assert [pair.place for pair in found.pairs] == [f"row {n}" for n in sorted(first & second)]
    assert found.only_first == tuple(f"row {n}" for n in sorted(first - second))
    assert found.only_second == tuple(f"row {n}" for n in sorted(second - first, reverse=True))


def test_without_rows_in_both_samples_are_paired():
    (pair,) = pairing([prediction_record(3, row=9)], [prediction_record(3)]).pairs
    assert pair.number == 3


def test_layers_and_heads_are_told_apart_and_the_attack_may_be_another():
    left = [attack_record(layer, sample) for layer in range(2) for sample in range(2)]
    right = [attack_record(layer, sample, attack="move") for layer in (1, 0) for sample in (1, 0)]
    assert [pair.place for pair in pairing(left, right).pairs] == [
        "layer 0, sample 0", "layer 0, sample 1", "layer 1, sample 0", "layer 1, sample 1",
    ]  # fmt: skip
    heads = [certify_record(0, head) for head in (None, 0, 1)]
    assert len(pairing(heads, heads).pairs) == 3


def test_several_attacks_lengths_and_radii_of_one_place_are_paired_by_them():
    attacks = [attack_record(attack=name) for name in ("move", "mass_split")]
    assert [pair.place for pair in pairing(attacks, attacks[1:]).pairs] == ["layer 0, sample 0, attack mass_split"]
    lengths = [constant_record(tokens=length) for length in (4, 8)]
    assert pairing(lengths, lengths[:1]).only_first == ("layer 0, sample 0, tokens 8",)
    radii = [attack_record(budget=BudgetPart(kind="wasserstein", radius=radius)) for radius in (0.1, 0.2)]
    assert len(pairing(radii, radii).pairs) == 2


def test_records_that_nothing_tells_apart_are_refused():
    with pytest.raises(UserError, match="nothing tells apart the records of one place, such as attack at layer 0"):
        pairing([attack_record(), attack_record()], [attack_record()])


def test_kinds_are_never_mixed():
    found = pairing([prediction_record(), layer_record()], [layer_record()])
    assert [pair.place for pair in found.pairs] == ["layer, layer 0, sample 0"]
    assert found.only_first == ("prediction, sample 0",)


def test_other_texts_and_lengths_are_other_inputs():
    def same(**fields: object) -> bool:
        (pair,) = pairing([prediction_record()], [prediction_record(**fields)]).pairs
        return pair.same_input

    assert same()
    assert same(text=None)
    assert not same(text="another")
    assert not same(tokens=13)
