"""Every model type of the installed transformers, tiny and random: configurations by the names of their sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

TOKENS, VOCABULARY, WIDTH, HEADS, IMAGE, PATCH = 12, 99, 64, 4, 32, 8
SIZES: Mapping[int, tuple[str, ...]] = {
    WIDTH: (
        *("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "embedding_size", "encoder_hidden_size"),
        *(
            "projection_dim",
            "word_embed_proj_dim",
            "d_embed",
            "hidden_dim_size",
            "encoder_embed_dim",
            "hidden_channels",
        ),
        *(
            "decoder_hidden_size",
            "output_hidden_size",
            "out_hidden_size",
            "cross_attention_hidden_size",
            "q_hidden_size",
        ),
        *("kv_hidden_size", "decoder_embed_dim", "embed_dims", "lru_width", "vision_hidden_size", "text_hidden_size"),
        *("encoder_hidden_dim", "decoder_hidden_dim", "mm_hidden_size", "projector_hidden_size", "upsample_groups"),
    ),
    96: (
        *(
            "intermediate_size",
            "ffn_dim",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "d_ff",
            "n_inner",
            "d_inner",
            "ffn_hidden",
        ),
        *(
            "mlp_dim",
            "moe_intermediate_size",
            "encoder_intermediate_size",
            "decoder_intermediate_size",
            "ffn_hidden_size",
        ),
        *(
            "shared_expert_intermediate_size",
            "dim_feedforward",
            "intermediate_size_mlp",
            "hidden_dim",
            "decoder_ffn_size",
        ),
    ),
    2: (
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth"),
        *("num_decoder_layers", "num_encoder_layers", "decoder_num_hidden_layers", "encoder_num_hidden_layers"),
        *("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_key_value_groups", "decoder_num_layers", "n_group"),
        *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "topk_group", "moe_k", "top_k_experts"),
        *("encoder_num_layers", "num_block_layers", "decoder_depth", "temporal_num_hidden_layers", "layers"),
        *("intermediate_transformer_layers", "fusion_layers", "num_global_layers", "num_self_attends_per_block"),
        *("kv_n_heads", "num_codebooks_layers", "num_blocks", "num_multimodal_layers", "v_depth", "nb_layers"),
    ),
    1: ("first_k_dense_replace", "num_dense_layers", "num_self_attention_layers", "num_nextn_predict_layers"),
    HEADS: (
        *(
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
        ),
        *("encoder_num_attention_heads", "decoder_num_attention_heads", "num_experts", "num_local_experts"),
        *("n_routed_experts", "decoder_n_head", "moe_num_experts", "encoder_num_heads", "decoder_num_heads", "nhead"),
        *("num_self_attention_heads", "num_cross_attention_heads", "attention_heads", "max_cross_attention_heads"),
        *("linear_num_key_heads", "linear_num_value_heads", "num_attention_head", "text_heads", "n_experts"),
    ),
    16: (
        "head_dim",
        "d_kv",
        "attention_head_dim",
        "kv_channels",
        "v_head_dim",
        "qk_nope_head_dim",
        "attention_key_size",
    ),
    VOCABULARY: ("vocab_size", "text_vocab_size", "decoder_vocab_size", "src_vocab_size", "tgt_vocab_size"),
    128: (
        *("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_target_positions"),
        *("max_source_positions", "decoder_max_position_embeddings", "encoder_max_position_embeddings"),
    ),
    IMAGE: ("image_size", "img_size", "input_size"),
    PATCH: ("patch_size", "rotary_dim"),
}
LAYERS = SIZES[2][:14]
BY_NAME = {name: size for size, names in SIZES.items() for name in names}
IDS = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "cls_token_id",
    "sep_token_id",
    "mask_token_id",
    "decoder_start_token_id",
)


@dataclass(frozen=True)
class Variation:
    """One way to make a configuration small; types differ in what they demand of their sizes.

    `fill` gives a value to sizes that have none and every head its own keys, `widths` says whether widths are made
    small too, `kinds` makes room for a layer of every kind, `mrope` divides rotary planes between axes.
    """

    layers: int = 2
    fill: bool = False
    widths: bool = True
    kinds: bool = False
    mrope: tuple[int, ...] | None = None


VARIATIONS = (
    Variation(),
    Variation(fill=True),
    Variation(mrope=(4, 2, 2)),
    Variation(mrope=(2, 1, 1)),
    Variation(layers=4, kinds=True),
    Variation(layers=8),
    Variation(layers=8, fill=True),
    Variation(widths=False),
    Variation(widths=False, fill=True),
)
CHANNELS_FIRST = "channels_first"
EXTRAS: tuple[tuple[str, ...], ...] = (
    *((), ("pixel_values",), ("attention_mask",), ("pixel_values", "attention_mask"), (CHANNELS_FIRST,)),
)
"""Inputs that some types want although they do not say so, and the other order of a spectrogram's axes."""
FILLED = ("head_dim", "num_key_value_heads", "vocab_size", "moe_intermediate_size", "num_attention_heads")
GIVEN: Mapping[str, Any] = {"default_language": "en_XX", "vocabulary_map": {"<image>": 5}, "attn_layer_indices": [0]}
"""What else some types cannot be without."""
KINDS = ("layer_types", "layers_block_type", "mlp_layer_types", "block_types")
LARGEST_WIDTH, LARGEST_SIZE = 1100, 100_000_000


def tiny_config(made: type[Any], variation: Variation) -> Any:
    """A configuration of the class in which every size that has a known name is small."""
    default = made()
    width = getattr(default, "hidden_size", None)
    if not variation.widths and isinstance(width, int) and width > LARGEST_WIDTH:
        raise ValueError(f"a width of {width} is not tiny")
    return made(**_changes(default, variation, 0))


def _changes(config: Any, variation: Variation, depth: int) -> dict[str, Any]:
    values = {name: value for name, value in config.to_dict().items() if not name.startswith("_")}
    aliases = {name: config.attribute_map.get(name, name) for name in values}
    changes = {name: _small(name, aliases[name], value, variation) for name, value in values.items()}
    changes = {name: value for name, value in changes.items() if value is not None}
    if variation.mrope is not None and "rope_parameters" in values:
        changes["rope_parameters"] = {**(values["rope_parameters"] or {}), "mrope_section": list(variation.mrope)}
    for name in getattr(config, "sub_configs", {}) if depth < 3 else ():
        inner = getattr(config, name, None)
        if inner is not None and hasattr(inner, "to_dict"):
            kind = {"model_type": inner.model_type} if getattr(inner, "model_type", "") else {}
            changes[name] = {**kind, **_changes(inner, variation, depth + 1)}
    return changes


def _small(name: str, alias: str, value: Any, variation: Variation) -> Any:
    """A small value for what the name stands for, None to leave it."""
    size = BY_NAME.get(alias, BY_NAME.get(name))
    if size in (WIDTH, 96, 16, PATCH, HEADS) and not variation.widths:
        return None
    if variation.fill and name in FILLED and (value is None or name == "num_key_value_heads"):
        return HEADS if name == "num_key_value_heads" else size
    if variation.fill and value is None and (name in IDS or name in GIVEN):
        return GIVEN.get(name, IDS.index(name) if name in IDS else None)
    if isinstance(value, int) and not isinstance(value, bool):
        return _small_number(name, size, value, variation)
    return _small_list(name, size, list(value), variation) if isinstance(value, (list, tuple)) else None


def _small_number(name: str, size: int | None, value: int, variation: Variation) -> int | None:
    if name in IDS and value >= VOCABULARY:
        return IDS.index(name)
    if size is None:
        return None
    size = variation.layers if name in LAYERS else size
    return min(size, value) if size < 16 and value > 0 else size


def _small_list(name: str, size: int | None, value: list[Any], variation: Variation) -> list[Any] | None:
    if name in KINDS and variation.kinds:
        return (list(dict.fromkeys(value)) * variation.layers)[: variation.layers]
    if name == "depths":
        return [1] * len(value)
    if name == "attention_types":
        return [[["global", "local"], variation.layers // 2]]
    if size == HEADS and value and isinstance(value[0], int):
        return [HEADS if each > 2 else each for each in value]
    return [min(size, each) for each in value] if size is not None and value and isinstance(value[0], int) else None


def scrambled(module: nn.Module) -> nn.Module:
    """Every parameter that is learnt moved by random numbers, so that biases, gains and gates matter."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        if parameter.is_floating_point() and parameter.requires_grad:
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)
    return module.eval()


@dataclass(frozen=True, eq=False)
class Tiny:
    """A model and how it is fed."""

    module: nn.Module
    extras: tuple[str, ...]

    def inputs(self, samples: int, dtype: torch.dtype) -> dict[str, Any]:
        """Arbitrary inputs by the names that the model's forward pass takes."""
        whole: Any = self.module
        names = inspect.signature(whole.forward).parameters
        main = getattr(whole, "main_input_name", "input_ids")
        required = [
            name
            for name, each in names.items()
            if each.default is inspect.Parameter.empty and each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        wanted = [name for name in ("decoder_input_ids", "bbox", *self.extras) if name in names]
        found = {name: _input(whole, name, samples, dtype) for name in dict.fromkeys((main, *required, *wanted))}
        if CHANNELS_FIRST in self.extras and "input_features" in found:
            found["input_features"] = found["input_features"].transpose(1, 2)
        return found | ({"use_cache": False} if "use_cache" in names else {})


def model_types() -> tuple[str, ...]:
    """Every type of model that the installed transformers knows."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return tuple(MODEL_MAPPING_NAMES)


def tiny_models(model_type: str) -> Iterator[Tiny]:
    """The base model of a type, tiny, random, in float32 and evaluation mode, in every way in which it runs.

    Raises what went wrong at first if it runs in none.
    """
    first: Exception | None = None
    ran = False
    for variation in VARIATIONS:
        try:
            module = _built(model_type, variation)
            tiny = next(each for each in _fed(module) if _runs(each))
        except (ImportError, NotImplementedError):
            raise
        except StopIteration:
            first = first or RuntimeError("it does not run on inputs that are made up")
        except Exception as error:  # whatever a library raises about sizes that it does not like
            first = first or error
        else:
            ran = True
            yield tiny
    if not ran and first is not None:
        raise first


def _built(model_type: str, variation: Variation) -> nn.Module:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    library: Any = transformers
    name = MODEL_MAPPING_NAMES[model_type]
    made = getattr(library, name if isinstance(name, str) else name[0])
    with torch.device("meta"):
        size = sum(each.numel() for each in made(tiny_config(made.config_class, variation)).parameters())
    if size > LARGEST_SIZE:
        raise ValueError(f"{size} parameters are not tiny")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module: nn.Module = made(tiny_config(made.config_class, variation))
    return scrambled(module.float())


def _fed(module: Any) -> Iterator[Tiny]:
    """The model with every choice of inputs that its forward pass knows."""
    names = inspect.signature(module.forward).parameters
    audio = {CHANNELS_FIRST} if "input_features" in names else set()
    known = dict.fromkeys(tuple(name for name in extras if name in {*names, *audio}) for extras in EXTRAS)
    return (Tiny(module, extras) for extras in known)


def _runs(tiny: Tiny) -> bool:
    given = tiny.inputs(2, torch.float32)
    try:
        with torch.no_grad():
            tiny.module(**given)
    except Exception:
        return False
    return True


def _input(whole: Any, name: str, samples: int, dtype: torch.dtype) -> Tensor:
    """What a type calls `name`, made up."""
    config, g = whole.config, torch.Generator().manual_seed(0)
    words = (samples, TOKENS)
    makers: dict[str, Callable[[], Tensor]] = {
        **dict.fromkeys(("input_ids", "decoder_input_ids", "user_input_ids"), lambda: _ids(config, words, g)),
        **dict.fromkeys(("pixel_values", "pixel_values_videos"), lambda: _pixels(config, samples, g).to(dtype)),
        **dict.fromkeys(("attention_mask", "decoder_attention_mask"), lambda: torch.ones(words, dtype=torch.long)),
        **dict.fromkeys(("inputs_embeds", "inputs"), lambda: torch.randn(*words, WIDTH, generator=g).to(dtype)),
        "input_features": lambda: _features(config, samples, g).to(dtype),
        "input_values": lambda: _sound(config, samples, g).to(dtype),
        "past_values": lambda: _series(config, samples, g).to(dtype),
        "bbox": lambda: torch.zeros(*words, 4, dtype=torch.long),
    }
    if name not in makers:
        raise NotImplementedError(f"no input called {name} is known")
    return makers[name]()


def _ids(config: Any, shape: tuple[int, int], g: torch.Generator) -> Tensor:
    vocabulary = getattr(config.get_text_config(), "vocab_size", None) or VOCABULARY
    return torch.randint(10, max(11, min(int(vocabulary), VOCABULARY)), shape, generator=g)


def _sound(config: Any, samples: int, g: torch.Generator) -> Tensor:
    """A wave, of one channel where channels are counted, or a spectrogram for a type that has a number of frames."""
    if hasattr(config, "max_length") and hasattr(config, "num_mel_bins"):
        return torch.randn(samples, int(config.max_length), int(config.num_mel_bins), generator=g)
    channels = (int(config.audio_channels),) if hasattr(config, "audio_channels") else ()
    return torch.randn(samples, *channels, 4000, generator=g)


def _series(config: Any, samples: int, g: torch.Generator) -> Tensor:
    return torch.randn(samples, int(config.context_length), int(config.num_input_channels), generator=g)


def _features(config: Any, samples: int, g: torch.Generator) -> Tensor:
    """Frames of a spectrogram: Whisper wants as many as it has positions for, with frequencies first."""
    names = ("feature_projection_input_dim", "num_mel_bins", "feature_size", "input_feat_per_channel")
    channels = next((getattr(config, name) for name in names if getattr(config, name, None)), 80)
    if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):
        return torch.randn(samples, channels, 2 * int(config.max_source_positions), generator=g)
    return torch.randn(samples, 64, channels, generator=g)


def _pixels(config: Any, samples: int, g: torch.Generator) -> Tensor:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or getattr(config, "image_size", None) or IMAGE
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3
    frames = getattr(vision, "num_frames", None)
    shape = (samples, channels, height, width) if frames is None else (samples, frames, channels, height, width)
    return torch.randn(shape, generator=g)
