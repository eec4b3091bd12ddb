"""Token sequences and images that become the input of a layer."""

from robust_attn.data.source import (
    Digits,
    Gaussian,
    HubText,
    ImageFolder,
    LayerInputs,
    Prose,
    Source,
    Sphere,
    TextFile,
    read_inputs,
)

__all__ = [
    "Digits",
    "Gaussian",
    "HubText",
    "ImageFolder",
    "LayerInputs",
    "Prose",
    "Source",
    "Sphere",
    "TextFile",
    "read_inputs",
]
