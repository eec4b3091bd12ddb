from __future__ import annotations

import pytest

from robust_attn.models.catalog import CATALOG
from robust_attn.models.registry import ADAPTERS, adapter_for
from robust_attn.types import UserError


def test_every_model_of_the_catalog_has_an_adapter():
    assert {spec.architecture for spec in CATALOG.values()} == set(ADAPTERS)


def test_an_unknown_model_type_is_named_with_the_supported_ones():
    with pytest.raises(UserError, match=r"'mamba'; supported: bert, distilbert, gpt2, llama, roberta, toy, vit"):
        adapter_for("mamba")
