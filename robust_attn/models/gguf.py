"""A quantised Llama out of a GGUF file, as safetensors in float32 with its tokenizer."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch

from robust_attn.models.quiet import quiet_transformers, reason
from robust_attn.types import UserError

NOTE = "4-bit weights dequantised: a trained model, but not bit for bit the original one"


def convert_gguf(gguf_file: Path) -> None:
    """Writes model.safetensors, config.json and the tokenizer beside the GGUF file, and removes it. Takes a minute."""
    import transformers
    from safetensors.torch import save_file

    library: Any = transformers
    folder, name = gguf_file.parent, gguf_file.name
    try:
        # The reader of GGUF has a progress bar of its own that nothing but stderr itself can switch off.
        with redirect_stderr(io.StringIO()), quiet_transformers(), torch.random.fork_rng(devices=[]):
            tokenizer = library.AutoTokenizer.from_pretrained(
                folder, gguf_file=name, local_files_only=True, trust_remote_code=False
            )
            model = library.AutoModelForCausalLM.from_pretrained(
                folder, gguf_file=name, dtype=torch.float32, local_files_only=True, trust_remote_code=False
            )
            weights = {key: tensor.contiguous() for key, tensor in model.model.state_dict().items()}
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
            model.config.quantization_config = None
            model.config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except Exception as error:
        raise UserError(f"{name} could not be converted from GGUF: {reason(error)}") from error
    gguf_file.unlink()
