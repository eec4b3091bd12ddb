"""Attention layers out of any model of transformers, found by watching it run."""

from robust_attn.models.generic.extract import Extraction, extract

__all__ = ["Extraction", "extract"]
