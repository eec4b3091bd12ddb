"""Adapters from Hugging Face models to AttentionLayer; the only importer of transformers."""

from robust_attn.models.adapter import Adapter, AttachedLayer
from robust_attn.models.catalog import CATALOG, ModelSpec, WheelSource, spec_of
from robust_attn.models.load import load_model
from robust_attn.models.model import AttentionModel
from robust_attn.models.weights import WeightsOrigin

__all__ = [
    "CATALOG",
    "Adapter",
    "AttachedLayer",
    "AttentionModel",
    "ModelSpec",
    "WeightsOrigin",
    "WheelSource",
    "load_model",
    "spec_of",
]
