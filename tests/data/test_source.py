from __future__ import annotations

import pytest
import torch

from robust_attn.data.settings import Digits, Gaussian, HubText, ImageFolder, Prose, Sphere, TextFile
from robust_attn.data.source import read_inputs
from robust_attn.types import UserError


def _inputs(source, model, *, layers=(0, 2), tokens=7, samples=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return read_inputs(source, model, layers=layers, tokens=tokens, samples=samples, generator=generator).measures


def test_prose_becomes_the_input_of_each_layer(bert):
    inputs = _inputs(Prose(), bert)
    assert set(inputs) == {0, 2}
    for measure in inputs.values():
        assert measure.points.shape == (3, 7, 24)
        assert measure.points.dtype is torch.float64
        assert measure.is_uniform
    assert torch.equal(inputs[2].points, _inputs(Prose(), bert, layers=[2])[2].points)
    assert not torch.equal(inputs[0].points[0], inputs[0].points[1])


def test_a_file_is_read_through_the_model(bert, tmp_path):
    text = " ".join(f"wörd{index}" for index in range(10))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    found = _inputs(TextFile(str(tmp_path / "text.txt")), bert, tokens=10, samples=1)[0]
    assert torch.equal(found.points[0], bert.tokens_at(0, text).points)
    with pytest.raises(UserError, match="has 10 tokens, but 3 samples of 7 tokens need 21"):
        _inputs(TextFile(str(tmp_path / "text.txt")), bert)


def test_the_tokens_of_a_text_are_spelled_in_the_order_of_the_samples(bert, tmp_path):
    (tmp_path / "text.txt").write_text("one two, <b>three</b>", encoding="utf-8")
    source, generator = TextFile(str(tmp_path / "text.txt")), torch.Generator()
    found = read_inputs(source, bert, layers=[0], tokens=5, samples=2, generator=generator)
    assert found.spelled == [["one", "two", ",", "<", "b"], [">", "three", "<", "/", "b"]]
    assert found.measures[0].points.shape == (2, 5, 24)
    assert torch.equal(found.measures[0].points, _inputs(source, bert, tokens=5, samples=2)[0].points)


@pytest.mark.parametrize("source", [Gaussian(), Sphere(1.0)])
def test_drawn_tokens_have_no_spelling(bert, source):
    found = read_inputs(source, bert, layers=[0], tokens=3, samples=1, generator=torch.Generator())
    assert found.spelled is None


def test_the_models_limit_is_said(bert):
    with pytest.raises(UserError, match="bert reads at most 512 tokens, got tokens=513"):
        _inputs(Prose(), bert, tokens=513)
    assert _inputs(Gaussian(), bert, tokens=513, samples=1)[0].length == 513


def test_text_and_images_are_not_mixed_up(bert, vit):
    for source in (Prose(), TextFile("any"), HubText("any")):
        with pytest.raises(UserError, match="vit reads images, not text"):
            _inputs(source, vit, layers=[0])
    for source in (Digits(), ImageFolder("any")):
        with pytest.raises(UserError, match="bert reads text, not images"):
            _inputs(source, bert)


def test_images_have_the_models_own_number_of_tokens(vit):
    assert _inputs(Digits(), vit, layers=[1], tokens=3)[1].points.shape == (3, 17, 24)


def test_gaussian_points_depend_on_the_seed_but_not_on_the_other_layers(bert):
    alone = _inputs(Gaussian(2.0), bert, layers=[2])[2].points
    assert torch.equal(alone, _inputs(Gaussian(2.0), bert, layers=[0, 1, 2])[2].points)
    assert torch.equal(alone, 2 * _inputs(Gaussian(), bert, layers=[2])[2].points)
    assert not torch.equal(alone, _inputs(Gaussian(2.0), bert, layers=[2], seed=1)[2].points)


def test_the_generator_moves_on(bert):
    generator = torch.Generator().manual_seed(0)
    asked = {"layers": [0], "tokens": 4, "samples": 1, "generator": generator}
    first, second = (read_inputs(Gaussian(), bert, **asked).measures[0].points for _ in range(2))
    assert not torch.equal(first, second)


def test_a_sphere_has_the_layers_radius_unless_told(bert):
    radius = bert.layer(2).input_radius
    assert float(_inputs(Sphere(), bert)[2].radius.max()) == pytest.approx(radius, rel=1e-12)
    assert float(_inputs(Sphere(0.5), bert)[2].radius.max()) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("source", [Prose(), Gaussian(), Sphere()])
def test_counts_and_layers_are_checked(source, bert):
    with pytest.raises(UserError, match="at least 1"):
        _inputs(source, bert, samples=0)
    with pytest.raises(UserError, match="its layers are 0 to 2"):
        _inputs(source, bert, layers=[3])
