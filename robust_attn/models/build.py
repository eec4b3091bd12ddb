"""Modules out of sizes or folders: always on the CPU, in evaluation mode, without touching the global random state."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robust_attn.models.catalog import ModelSpec
from robust_attn.models.folder import IMAGE_PROCESSOR_FILE, TOKENIZER_FILES, has_tokenizer, stored_in_float64
from robust_attn.models.generic.as_found import floating_tensors
from robust_attn.models.heads import head_named, with_next_token
from robust_attn.models.quiet import quiet_transformers, reason
from robust_attn.models.tensors import check_tensors
from robust_attn.models.toy import ToyConfig, ToyTransformer
from robust_attn.types import UserError


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's default generator of the CPU starts at `seed` inside and is as it was before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def random_module(spec: ModelSpec, sizes: Mapping[str, Any], *, seed: int, dtype: torch.dtype) -> nn.Module:
    """The architecture with freshly drawn weights: drawn in float32, so every precision has the same ones."""
    config = _config(spec, sizes)
    try:
        with seeded(seed), quiet_transformers():
            module = _fresh(config)
            module = with_next_token(module) if spec.next_token else module
    except Exception as error:
        raise UserError(f"{spec.name} cannot be built with sizes {dict(sizes)}: {reason(error)}") from error
    return _prepared(module, dtype)


def pretrained_module(folder: Path, *, dtype: torch.dtype, spec: ModelSpec) -> nn.Module:
    """The model in a folder that was checked before, if its tensors are those of the model (`check_tensors`).

    Loaded in a precision that holds the weights as they are stored, then rounded to `dtype`, in the class that
    `_model_class` says.
    """
    from transformers import AutoConfig

    try:
        with seeded(0), quiet_transformers():
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            made = _model_class(config, spec)
            module, info = made.from_pretrained(
                folder,
                config=config,
                dtype=torch.float64 if stored_in_float64(folder) else torch.float32,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # refused below, with both shapes
                output_loading_info=True,
                **_without_pooler(made, config),
            )
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the weights in {folder} cannot be loaded: {reason(error)}") from error
    check_tensors(folder, module, info)
    return _prepared(module, dtype)


def tokenizer_in(folder: Path) -> Any | None:
    """The folder's tokenizer, None if it has no files of one."""
    return _tokenizer(folder) if has_tokenizer(folder) else None


def image_processor_in(folder: Path) -> Any | None:
    """What makes pixel values of an image as when the model was trained, None if the folder does not say it."""
    if not (folder / IMAGE_PROCESSOR_FILE).is_file():
        return None
    import transformers

    made: Any = transformers.AutoImageProcessor
    try:
        with quiet_transformers():
            return made.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise UserError(f"the image processor in {folder} cannot be loaded: {reason(error)}") from error


def tokenizer_from(given: str) -> Any:
    """The tokenizer of a folder that somebody named, so that one must be there.

    Its own files say of which kind it is. The model's configuration is not asked: with that of another architecture
    transformers makes a tokenizer that reads nothing.
    """
    folder = Path(given).expanduser()
    if not given.strip():
        raise UserError("the tokenizer must be given by a folder, got nothing")
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to take a tokenizer from")
    if not has_tokenizer(folder):
        raise UserError(f"{folder} has no tokenizer: it has none of the files {', '.join(TOKENIZER_FILES)}")
    return _tokenizer(folder)


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        with quiet_transformers():
            return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        said = reason(error).rstrip(" :")
        raise UserError(
            f"the tokenizer in {folder} cannot be loaded: {said} (save_pretrained writes the files that are needed)"
        ) from error


def _config(spec: ModelSpec, sizes: Mapping[str, Any]) -> Any:
    """The spec's configuration with `sizes` over it; a size may be given under either of its names."""
    if spec.architecture == ToyConfig.model_type:
        made: type[Any] = ToyConfig
        known = set(ToyConfig.__dataclass_fields__)
        aliases: Mapping[str, str] = {}
    else:
        from transformers import CONFIG_MAPPING

        made = CONFIG_MAPPING[spec.architecture or ""]
        aliases = made.attribute_map
        known = set(made().to_dict()) | set(aliases)
    unknown = sorted(set(sizes) - known)
    if unknown:
        raise UserError(f"{spec.name} has no size called {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    merged = {aliases.get(name, name): value for name, value in (*spec.sizes.items(), *sizes.items())}
    try:
        return made(**merged)
    except Exception as error:
        raise UserError(f"{spec.name} refuses the sizes {dict(sizes)}: {reason(error)}") from error


def _fresh(config: Any) -> nn.Module:
    if isinstance(config, ToyConfig):
        return ToyTransformer(config)
    import transformers

    auto: Any = transformers.AutoModel
    module: nn.Module = auto.from_config(config, dtype=torch.float32, **_without_pooler(auto, config))
    return module


def _model_class(config: Any, spec: ModelSpec) -> Any:
    """The class that the weights were saved from, where transformers has it, else AutoModel.

    A model that is known by name has its head only where that gives classes or next tokens; a language model has it
    also where the class was not written down.
    """
    import transformers

    saved = (config.architectures or [""])[0]
    if spec.next_token and not saved:
        return transformers.AutoModelForCausalLM
    wanted = spec.architecture is None or head_named([saved]) is not None
    return getattr(transformers, saved, transformers.AutoModel) if saved and wanted else transformers.AutoModel


def _without_pooler(made: Any, config: Any) -> dict[str, bool]:
    """The keyword that leaves a pooler out, where the class has one: no attention layer depends on it."""
    import transformers

    if made is not transformers.AutoModel:
        return {}
    mapping: Any = transformers.MODEL_MAPPING
    known = mapping.get(type(config), None)
    found = known[0] if isinstance(known, (list, tuple)) else known
    parameters = {} if found is None else inspect.signature(found.__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}


def _prepared(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Weights in the precision asked for; buffers such as rotary frequencies stay in float32, as models expect."""
    for tensor in floating_tensors(module):
        tensor.data = tensor.data.to(dtype)
    config: Any = module.config
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return module.eval().requires_grad_(False)
