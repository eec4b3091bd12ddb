import pytest

from robust_attn.experiments.adversarial_layer import AdversarialLayer, findings, panels
from robust_attn.pipeline import LayerJob
from robust_attn.record import Subject
from robust_attn.types import UserError
from tests.cases import Case, generator, random_layer, random_measure


def job(case: Case) -> LayerJob:
    layer, inputs = random_layer(case, generator(0), scale=1.5), random_measure(case, generator(1))
    return LayerJob(Subject("toy", "random:0", 2), layer, inputs)


def test_growth_like_the_square_root_of_the_whole_layer():
    records = list(AdversarialLayer([8, 32, 128], radius=8.0).records(job(Case(bias=False))))
    assert {record["verdict"] for record in records} == {"HOLDS"}
    assert [record["tokens"] for record in records] == [8, 32, 128]
    (growth,) = findings(records)["growth"]
    assert growth["exponent"] == pytest.approx(0.5, abs=0.1)
    last = records[-1]["lipschitz"]["lower"]
    assert growth["constant_over_sqrt_n"] == pytest.approx(last / 128**0.5)
    (panel,) = panels(records)
    assert len(panel.lines["layer 2"]) == 3


def test_without_a_radius_that_of_the_tokens():
    (first, *_) = AdversarialLayer([2, 4]).records(job(Case()))
    assert first["radius"] == pytest.approx(float(job(Case()).inputs.radius.max()))


def test_rotary_layers_are_refused():
    with pytest.raises(UserError, match="rotary"):
        list(AdversarialLayer([2, 4]).records(job(Case(rotary=True))))
