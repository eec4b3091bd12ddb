"""Adapters from Hugging Face models to AttentionLayer; the only importer of transformers.

Torch and transformers are imported when a model is asked for: the catalog and the settings cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robust_attn.models.load import load_model, wrap
    from robust_attn.models.model import AttentionModel
    from robust_attn.models.multihead import from_multihead_attention

__all__ = ["AttentionModel", "from_multihead_attention", "load_model", "wrap"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'robust_attn.models' has no attribute {name!r}")
    from robust_attn.models import load, multihead

    return getattr(multihead if name == "from_multihead_attention" else load, name)
