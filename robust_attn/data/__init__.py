"""Token sequences and images that become the input of a layer."""

from robust_attn.data.source import (
    Digits,
    Gaussian,
    HubText,
    ImageFolder,
    Prose,
    Source,
    Sphere,
    TextFile,
    layer_inputs,
)

__all__ = ["Digits", "Gaussian", "HubText", "ImageFolder", "Prose", "Source", "Sphere", "TextFile", "layer_inputs"]
