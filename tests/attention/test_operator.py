import torch

from robust_attn.attention.operator import FunctionJacobian, ScaledJacobian
from tests.attention.laws import JacobianLaws
from tests.cases import Case, generator, random_layer, random_measure


class TestFunctionJacobian(JacobianLaws):
    def make(self, case, g):
        layer, measure = random_layer(case, g), random_measure(case, g)

        def function(points):
            return torch.tanh(layer(measure.with_points(points)))

        return FunctionJacobian(function, measure.points), function, measure.points


class TestScaledJacobian(JacobianLaws):
    """S J S^{-1} is the derivative of the map in scaled coordinates, z = S x."""

    def make(self, case, g):
        layer, measure = random_layer(case, g), random_measure(case, g)
        weights = measure.masses
        scale = weights.sqrt()[..., None]
        inverse = torch.where(scale > 0, 1 / scale, 0.0)

        def function(z):
            return scale * layer(measure.with_points(torch.where(scale > 0, inverse * z, measure.points)))

        return ScaledJacobian(layer.linearize(measure), weights), function, scale * measure.points


def test_padding_neither_moves_nor_counts():
    case = Case(masses="padded")
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(3), samples=8)
    assert (~measure.present).any()
    operator = ScaledJacobian(layer.linearize(measure), measure.masses)
    tangent = torch.where(measure.present[..., None], torch.zeros_like(measure.points), torch.ones_like(measure.points))
    assert (operator.jvp(tangent) == 0).all()
    image = operator.jvp(torch.ones_like(measure.points))
    assert (image[~measure.present] == 0).all()
