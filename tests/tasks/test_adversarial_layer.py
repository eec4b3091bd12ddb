import pytest

from robust_attn.pipeline.jobs import LayerJob, Subject
from robust_attn.tasks.adversarial_layer import AdversarialLayerTask
from robust_attn.types import UserError
from tests.cases import Case, generator, random_layer, random_measure

TASK = AdversarialLayerTask((8, 32, 128), radius=8.0)


def job(case: Case) -> LayerJob:
    layer, inputs = random_layer(case, generator(0), scale=1.5), random_measure(case, generator(1))
    return LayerJob(Subject("toy", "random:0", 2), layer, inputs)


def test_growth_like_the_square_root_of_the_whole_layer():
    records = list(TASK.layer_records(job(Case(bias=False))))
    assert {record.verdict for record in records} == {"HOLDS"}
    assert [record.tokens for record in records] == [8, 32, 128]
    (growth,) = TASK.findings(records)["growth"]
    assert growth["exponent"] == pytest.approx(0.5, abs=0.1)
    last = records[-1].lipschitz.lower
    assert growth["constant_over_sqrt_n"] == pytest.approx(last / 128**0.5)
    (panel,) = TASK.panels(records)
    assert len(panel.lines["layer 2"]) == 3


def test_without_a_radius_that_of_the_tokens():
    (first, *_) = AdversarialLayerTask((2, 4)).layer_records(job(Case()))
    assert first.radius == pytest.approx(float(job(Case()).inputs.radius.max()))


def test_rotary_layers_are_refused():
    with pytest.raises(UserError, match="rotary"):
        list(AdversarialLayerTask((2, 4)).layer_records(job(Case(rotary=True))))
