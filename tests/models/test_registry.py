from __future__ import annotations

import pytest

from robust_attn.models.generic.adapter import GenericAdapter
from robust_attn.models.registry import ADAPTERS, adapter_for


def test_only_the_toy_needs_an_adapter_of_its_own():
    assert set(ADAPTERS) == {"toy"}
    assert adapter_for("toy") is ADAPTERS["toy"]


@pytest.mark.parametrize("model_type", ["bert", "mistral", "an architecture of tomorrow"])
def test_whatever_has_no_adapter_of_its_own_is_watched(model_type):
    assert isinstance(adapter_for(model_type), GenericAdapter)
