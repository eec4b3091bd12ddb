"""Decoders with norms before the branches and a causal mask: GPT-2, and Llama with its relatives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from robust_attn.predictions.networks.readout import Readout
from robust_attn.predictions.steps import Attention, Block, Mlp, Network, Norm, Weights, activation_of


def gpt2_network(body: Any, length: int, readout: Readout) -> Network:
    """GPT-2: learned positions, LayerNorm, weights stored as [in, out]."""
    offset = body.wpe.weight[:length].detach().double()
    blocks = tuple(_gpt2_block(layer, body.config, length) for layer in body.h)
    return Network(offset, blocks, readout.pooling, readout.head, last_norm=Norm.layer(body.ln_f))


def _gpt2_block(layer: Any, config: Any, length: int) -> Block:
    reads, mlp = layer.attn, layer.mlp
    query, key, value = _columns(reads.c_attn).parts(3)
    attention = Attention(
        query,
        key,
        value,
        _columns(reads.c_proj),
        heads=config.num_attention_heads,
        scale=reads.scaling,
        visible=_visible(length, None),
    )
    inner = Mlp(_columns(mlp.c_fc), _columns(mlp.c_proj), activation_of(config.activation_function))
    return Block(attention, inner, (Norm.layer(layer.ln_1), Norm.layer(layer.ln_2)), pre=True)


def _columns(convolution: Any) -> Weights:
    """Of GPT-2's Conv1D, x W + b."""
    return Weights(convolution.weight.detach().double().T, convolution.bias.detach().double())


def llama_network(body: Any, length: int, readout: Readout) -> Network:
    """Llama, Mistral, Qwen2: RMSNorm, rotary positions, keys and values shared by groups, a gated MLP."""
    weight = body.norm.weight
    places = torch.arange(length, device=weight.device)[None]
    cosine, sine = (each[0].detach().double() for each in body.rotary_emb(weight.new_empty(1), places))
    blocks = tuple(_llama_block(layer, body.config, (cosine, sine)) for layer in body.layers)
    return Network(None, blocks, readout.pooling, readout.head, last_norm=_rms(body.norm))


def _llama_block(layer: Any, config: Any, rotation: tuple[Tensor, Tensor]) -> Block:
    reads, mlp = layer.self_attn, layer.mlp
    window = getattr(reads, "sliding_window", getattr(config, "sliding_window", None))
    modules = reads.q_proj, reads.k_proj, reads.v_proj, reads.o_proj
    query, key, value, output = (Weights.of(each) for each in modules)
    attention = Attention(
        query,
        key,
        value,
        output,
        heads=config.num_attention_heads,
        scale=reads.scaling,
        groups=config.num_key_value_heads,
        visible=_visible(len(rotation[0]), window),
        rotation=rotation,
    )
    up, down, gate = (Weights.of(each) for each in (mlp.up_proj, mlp.down_proj, mlp.gate_proj))
    norms = _rms(layer.input_layernorm), _rms(layer.post_attention_layernorm)
    return Block(attention, Mlp(up, down, activation_of(config.hidden_act), gate), norms, pre=True)


def _rms(norm: Any) -> Norm:
    return Norm(norm.weight.detach().double(), None, norm.variance_epsilon, centred=False)


def _visible(length: int, window: int | None) -> Tensor:
    """A token sees itself and those before it, with a window that many in all."""
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return causal if window is None else causal & ~causal.tril(-window)
