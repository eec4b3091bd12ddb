import pytest
import torch

from robust_attn.certificates.layer_tape import layer_tape
from tests.cases import EVERY_CASE, generator, random_layer, random_measure, windowed


def present(measure):
    """Sample 0 without its padding."""
    kept = measure.present[0]
    return type(measure)(measure.points[0][kept], measure.masses[0][kept], measure.positions[0][kept])


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
@pytest.mark.parametrize("window", [False, True], ids=["whole", "window"])
def test_the_tape_is_the_layer(case, window):
    g = generator(3)
    layer, measure = random_layer(case, g), random_measure(case, g)
    layer = windowed(layer, case, g) if window else layer
    tokens = present(measure)
    weights = torch.rand(tokens.length, generator=g, dtype=torch.float64) + 0.5
    root = weights.sqrt()[:, None]
    tape = layer_tape(layer, tokens, weights)
    assert torch.allclose(tape.logits / root + layer.offset, layer(tokens), rtol=1e-12, atol=1e-12)
    moved = torch.randn(tokens.points.shape, generator=g, dtype=torch.float64)
    there = layer(tokens.with_points(tokens.points + moved / root))
    assert torch.allclose(tape.replayed(moved)[-1] / root + layer.offset, there, rtol=1e-12, atol=1e-12)
