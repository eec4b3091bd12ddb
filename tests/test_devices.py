"""Everything that is drawn or built is where the input is: the same numbers on a device that refuses mixtures."""

from collections.abc import Iterator

import pytest
import torch

import robust_attn as ra
from robust_attn.attacks.attack import Attack
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.attention.places import able, standard_normal
from robust_attn.config.settings import settings_from
from robust_attn.models.devices import device_named
from robust_attn.work import Work
from tests.cases import CASES, Case, generator, random_layer, random_measure, windowed
from tests.composed import composed
from tests.pretend_device import ELSEWHERE, MixedDevicesError, brought_back, elsewhere, pretending
from tests.selection import at_first

BUDGETS = (ra.Wasserstein(0.1), ra.Frobenius(0.1), ra.PerToken(0.1))


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with pretending():
        yield


def pair(case: Case) -> tuple[AttentionLayer, TokenMeasure]:
    g = generator(7)
    return random_layer(case, g), random_measure(case, g)


def close(there: torch.Tensor, here: torch.Tensor) -> bool:
    assert there.device == ELSEWHERE, "the result came back from the device"
    return torch.allclose(brought_back(there), here, rtol=1e-10, atol=1e-12)


def test_the_device_refuses_what_a_gpu_refuses() -> None:
    there = elsewhere(torch.ones(3))
    assert (there + torch.tensor(1.0)).tolist() == [2, 2, 2], "numbers of no axes may come from the CPU"
    with pytest.raises(MixedDevicesError):
        there + torch.ones(3)
    with pytest.raises(MixedDevicesError):
        torch.randn(3, generator=generator(0), device=ELSEWHERE)
    with pytest.raises(RuntimeError):
        there.numpy()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_derivatives(case: Case) -> None:
    layer, measure = pair(case)
    for one in (layer, windowed(layer, case, generator(8))):
        here, there = one.linearize(measure), one.on(ELSEWHERE).linearize(measure.on(ELSEWHERE))
        assert close(there.value, here.value)
        tangent = standard_normal(here.domain, generator(9), measure.points)
        assert close(there.jvp(elsewhere(tangent)), here.jvp(tangent))
        assert close(there.vjp(elsewhere(here.value)), here.vjp(here.value))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("steps", [4, 64], ids=["lanczos", "decomposed"])
def test_local_lipschitz(case: Case, steps: int) -> None:
    layer, measure = pair(case)
    here = ra.local_lipschitz(layer, measure, steps=steps, seed=3)
    there = ra.local_lipschitz(layer.on(ELSEWHERE), measure.on(ELSEWHERE), steps=steps, seed=3)
    assert close(there.lower, here.lower)
    assert close(there.upper, here.upper)


@pytest.mark.parametrize("place", at_first([1, 2, 0, *range(3, len(CASES))], 1))
def test_certificates(place: int) -> None:
    case, budget = CASES[place], BUDGETS[place % len(BUDGETS)]
    layer, measure = pair(case)
    here = ra.certify(layer, measure.sample(0), budget, seed=3)
    there = ra.certify(layer.on(ELSEWHERE), measure.sample(0).on(ELSEWHERE), budget, seed=3)
    assert [each.name for each in there.bounds] == [each.name for each in here.bounds]
    for one, other in zip(there.bounds, here.bounds, strict=True):
        assert one.output_change == pytest.approx(other.output_change, rel=1e-9, nan_ok=True), one.name


@pytest.mark.slow
def test_certificates_of_any_measure() -> None:
    layer, measure = pair(Case())
    budget, sample = ra.Wasserstein(0.1, support=6.0), measure.sample(0)
    here = ra.certify_measures(layer, sample, budget)
    there = ra.certify_measures(layer.on(ELSEWHERE), sample.on(ELSEWHERE), budget)
    assert there.output_change == pytest.approx(here.output_change, rel=1e-9)


ATTACKS = {
    "move": ra.Move(steps=3, restarts=1),
    "mass_split": ra.MassSplit(copies=2, masses=ra.Masses.EQUAL, steps=3, restarts=1),
    "linear": ra.Linear(),
    "random": ra.RandomMove(trials=3),
}


SLOW_ATTACKS = {
    "sliver": ra.MassSplit(masses=ra.Masses.SLIVER, steps=3, restarts=1),
    "best": ra.MassSplit(copies=2, steps=3, restarts=1),
}


@pytest.mark.parametrize(
    "attack", at_first([*ATTACKS.values(), *SLOW_ATTACKS.values()], len(ATTACKS)), ids=[*ATTACKS, *SLOW_ATTACKS]
)
@pytest.mark.parametrize("case", at_first([CASES[5], CASES[0]], 1), ids=str)
def test_attacks(attack: Attack, case: Case) -> None:
    layer, measure = pair(case)
    budget = ra.Wasserstein(0.1)
    here = attack(layer, measure, budget, generator=generator(1))
    there = attack(layer.on(ELSEWHERE), measure.on(ELSEWHERE), budget, generator=generator(1))
    assert close(there.measure.points, here.measure.points)
    assert close(there.observation.output_change, here.observation.output_change)


def test_a_device_without_float64_hands_over_to_the_cpu() -> None:
    assert able(torch.device("mps"), torch.float64) == torch.device("cpu")
    assert able(torch.device("mps"), torch.float32) == torch.device("mps")
    assert able(torch.device("cuda:1"), torch.float64) == torch.device("cuda:1")


def test_draws_are_the_same_everywhere() -> None:
    like = torch.zeros(2, dtype=torch.float64)
    here, there = (standard_normal((4,), generator(5), each) for each in (like, elsewhere(like)))
    assert close(there, here)
    assert stack([TokenMeasure.uniform(elsewhere(like[None]))]).masses.device == ELSEWHERE


def records(*overrides: str) -> list[dict[str, object]]:
    quick = ("model=toy", "tokens=6", "samples=2", "layers=[0]", "certificate.seed=0")
    settings = settings_from(composed(*quick, *overrides))
    return [flattened(record.to_json()) for record in settings.task.records(Work(settings))]


def flattened(value: object, name: str = "") -> dict[str, object]:
    """Every leaf of a record by its path."""
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = ((str(index), each) for index, each in enumerate(value))
    else:
        return {name: value}
    return {path: leaf for key, each in inner for path, leaf in flattened(each, f"{name}.{key}").items()}


RUNS = at_first((["data=gaussian"], ["attack=mass_split"], ["task=certify"]), 0)


@pytest.mark.parametrize("overrides", RUNS, ids=" ".join)
def test_whole_runs(overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    here = records(*overrides)
    monkeypatch.setattr("robust_attn.models.load.device_named", lambda _: ELSEWHERE)
    there = records(*overrides)
    assert len(there) == len(here) > 0
    for one, other in zip(there, here, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            assert one[name] == (pytest.approx(value, rel=1e-7) if isinstance(value, float) else value), name


def test_a_model_of_transformers_goes_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 8,
        "vocab_size": 9,
    }
    here = ra.load_model("bert", "random", sizes=sizes)
    monkeypatch.setattr("robust_attn.models.load.device_named", lambda _: ELSEWHERE)
    there = ra.load_model("bert", "random", sizes=sizes)
    ids = torch.tensor([[1, 2, 3]])
    assert there.device == ELSEWHERE
    assert close(there.inputs_at([0], ids)[0].points, here.inputs_at([0], ids)[0].points)
    assert close(there.layer(0)(there.inputs_at([0], ids)[0]), here.layer(0)(here.inputs_at([0], ids)[0]))


@pytest.mark.parametrize("name", ["cuda", "cuda:3", "mps"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ra.UserError, match=f"device={name}: this torch .* sees no"):
        device_named(name)
    assert device_named("auto") == device_named("cpu") == torch.device("cpu")


def test_float64_is_refused_where_the_device_has_none() -> None:
    with pytest.raises(ra.UserError, match="device=mps has no float64: take dtype=float32"):
        settings_from(composed("device=mps"))
