from dataclasses import replace

import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.pipeline.constants import scaled_to
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject
from robust_attn.records.kinds import ConstantRecord
from robust_attn.records.parts import Constant
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.tasks.lipschitz import LipschitzTask, fits
from tests.cases import Case, generator, random_layer, random_measure

OPTIONS = CertificateOptions(lanczos_steps=20)


def job(length: int = 4) -> LayerJob:
    layer, inputs = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=3, length=length)
    return LayerJob(Subject("toy", "random:0", 2), layer, inputs)


def entry(n: int, sample: int, true: float | None, released: float | None, **fields) -> ConstantRecord:
    base = {"model": "toy", "weights": "random:0", "layer": 0, "mask": "none"} | fields
    return ConstantRecord(**base, tokens=n, sample=sample, lipschitz=Constant(lower=true), released=released)


def test_both_estimators_are_in_every_record():
    records = list(LipschitzTask().layer_records(job(), OPTIONS))
    assert [record.sample for record in records] == [0, 1, 2]
    exact = torch.linalg.matrix_norm(job().layer.linearize(job().inputs).dense(), 2)
    for record in records:
        assert record.lipschitz.lower == pytest.approx(float(exact[record.sample]), rel=1e-9)
        assert record.lipschitz.upper >= record.lipschitz.lower
        assert record.released > 0
        assert record.released != pytest.approx(record.lipschitz.lower, rel=1e-3)


def test_heads_radii_and_masks():
    study = LipschitzTask(heads=True, radii=(0.5, 2.0), mask="causal")
    records = list(study.layer_records(job(), OPTIONS))
    assert len(records) == 3 * 3 * 2
    assert {(record.head, record.scaled_to) for record in records} == {
        (head, radius) for head in (None, 0, 1) for radius in (0.5, 2.0)
    }
    assert {record.mask for record in records} == {"causal"}
    assert all(record.radius == pytest.approx(record.scaled_to) for record in records)
    causal = replace(job().layer, mask=Mask.CAUSAL)
    exact = local_lipschitz(causal, scaled_to(job().inputs, 0.5)).lower
    assert [r.lipschitz.lower for r in records[:3]] == pytest.approx(exact.tolist(), rel=1e-6)


def test_exponents_spread_and_intervals_by_hand():
    """True values 3 n^(1/2) and 5 n^(1/2), released n^(1/4): exponents 1/2 and 1/4; at n = 4 the mean of 6 and 10."""
    records = [entry(n, s, c * n**0.5, n**0.25) for n in (4, 16) for s, c in ((0, 3.0), (1, 5.0))]
    (fit,) = fits(records, "tokens")
    assert fit["exponent"] == pytest.approx(0.5)
    assert fit["released_exponent"] == pytest.approx(0.25)
    assert fit["interval"] == pytest.approx([0.5, 0.5])
    assert fit["windows"] == 2
    assert fit["sizes"][0]["tokens"] == 4
    assert fit["sizes"][0]["lipschitz"] == pytest.approx({"mean": 8.0, "std": 2.0, "min": 6.0, "max": 10.0})


def test_layers_heads_and_radii_are_fitted_apart():
    records = [
        entry(n, 0, n**power, 1.0, layer=layer, head=head, scaled_to=radius)
        for n in (2, 4)
        for power, layer, head, radius in ((0.1, 1, None, None), (0.2, 0, 1, None), (0.3, 0, None, 2.0))
    ]
    found = {(fit["layer"], fit["head"], fit["scaled_to"]): fit["exponent"] for fit in fits(records, "tokens")}
    assert found == pytest.approx({(0, None, 2.0): 0.3, (0, 1, None): 0.2, (1, None, None): 0.1})


def test_exponents_against_the_radius():
    records = [entry(8, 0, radius**2, radius, scaled_to=radius) for radius in (1.0, 2.0, 4.0)]
    (fit,) = fits(records, "scaled_to")
    assert fit["tokens"] == 8
    assert fit["exponent"] == pytest.approx(2.0)
    assert fit["released_exponent"] == pytest.approx(1.0)


def test_missing_values_do_not_stop_a_fit():
    records = [entry(n, 0, None if n == 4 else float(n), None) for n in (2, 4, 8)]
    (fit,) = fits(records, "tokens")
    assert fit["exponent"] == pytest.approx(1.0)
    assert fit["released_exponent"] is None
    assert fit["sizes"][1]["lipschitz"] is None
