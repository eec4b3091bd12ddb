import pytest
import torch

from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.budget import Wasserstein
from robust_attn.pipeline import (
    CertificateOptions,
    LayerJob,
    attack_records,
    certify_records,
    fitted_exponents,
    generator_for,
    worst_case_records,
)
from robust_attn.record import Subject
from tests.cases import Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


def job(case: Case = Case()) -> LayerJob:  # noqa: B008
    layer, inputs = random_layer(case, generator(0)), random_measure(case, generator(1))
    return LayerJob(Subject("toy", "random:0", 3), layer, inputs)


def test_generators_depend_on_their_purpose_alone():
    draws = {
        parts: float(torch.rand(1, generator=generator_for(*parts)))
        for parts in ((0, "a", 1), (0, "a", 2), (1, "a", 1), (0, "b", 1))
    }
    assert len(set(draws.values())) == 4
    assert float(torch.rand(1, generator=generator_for(0, "a", 1))) == draws[0, "a", 1]


def test_split_measures_are_certified_with_the_constant_of_copies():
    """x = (0, 1), A = -8: the record of a split says 2, the one of a move 1.853."""
    subject = Subject("toy", "random:0", 0)
    solved = LayerJob(subject, scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0])))
    (split,) = attack_records(solved, MassSplit(2), Wasserstein(1e-6), CertificateOptions(), seed=0)
    assert split["lipschitz"]["lower"] == pytest.approx(2.0, rel=1e-9)
    assert split["verdict"] == "HOLDS"
    assert split["tightness"] > 0.99
    assert split["tokens"] == 2
    assert split["copies"] == 2


def test_heads_are_certified_one_by_one():
    records = list(certify_records(job(), Wasserstein(0.01), CertificateOptions(), heads=True, seed=0))
    assert [(record["head"], record["sample"]) for record in records] == [
        (head, sample) for head in (None, 0, 1) for sample in (0, 1)
    ]


def test_worst_case_starts_from_the_papers_configurations():
    search = WorstCaseSearch(1.0, steps=5, restarts=1)
    (record,) = worst_case_records(job(Case(bias=False)), search, 5, seed=0)
    assert record["verdict"] == "HOLDS"
    assert 0 < record["tightness"] <= 1


def test_exponents_by_hand():
    """Constants 3 n^(1/2) at n = 4 and 16: slope 1/2, whatever the spread around the mean."""
    records = [
        {"layer": 0, "tokens": n, "lipschitz": {"lower": 3 * n**0.5 + delta}} for n in (4, 16) for delta in (-1, 1)
    ]
    (entry,) = fitted_exponents(records)
    assert entry["exponent"] == pytest.approx(0.5)
    assert fitted_exponents(records[:2])[0]["exponent"] is None
