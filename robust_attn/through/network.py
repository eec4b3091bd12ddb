"""A classifier as steps, for certificates, compared with the classifier itself."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.selfcheck import COARSE, TOLERANCES, relative_difference
from robust_attn.predictions.steps import Network
from robust_attn.through.classifier import exactly
from robust_attn.through.contract import Classifier
from robust_attn.types import UserError


def network_of(classifier: Classifier, points: Float[Tensor, "n d"]) -> Network:
    """The network whose logits at the points of one input are the classifier's own; the weights are in float64.

    An architecture without steps is refused, and so are steps that give other logits. A model that rounds to float32
    inside is compared without that rounding.
    """
    if classifier.model.dtype in COARSE:
        raise UserError(f"{classifier.model.name} computes in {classifier.model.dtype}, too coarse to be certified.")
    with torch.no_grad(), exactly(classifier.model):
        network = classifier.network(len(points))
        own = classifier.logits(TokenMeasure.uniform(points.detach()[None]))[0]
        difference = relative_difference(network.tape(points.double()).logits, own)
    tolerance = TOLERANCES[classifier.model.dtype]
    if not difference <= tolerance:  # NaN is refused too
        raise UserError(
            f"the steps of {classifier.model.name} give logits that differ from its own by {difference:.1e} relative, "
            f"more than {tolerance:.0e}; refusing to certify it"
        )
    return network
