"""ViT: patches of pixels behind a class token, norms before the branches."""

from __future__ import annotations

from typing import Any

from robust_attn.predictions.affine import Patches
from robust_attn.predictions.networks.readout import Readout
from robust_attn.predictions.steps import Attention, Block, Mlp, Network, Norm, Weights, activation_of


def vit_network(body: Any, _pixels: int, readout: Readout) -> Network:
    """Reads pixels [height * width, channels]; their number is that of the configuration."""
    config, embeddings = body.config, body.embeddings
    convolution = embeddings.patch_embeddings.projection
    offset = embeddings.position_embeddings[0].detach().double().clone()
    offset[0] += embeddings.cls_token[0, 0].detach()
    return Network(
        offset,
        tuple(_vit_block(layer, config) for layer in body.layers),
        readout.pooling,
        readout.head,
        last_norm=Norm.layer(body.layernorm),
        patches=Patches((config.num_channels, config.image_size, config.image_size), config.patch_size),
        embed=Weights(convolution.weight.detach().double().flatten(1), convolution.bias.detach().double()),
        class_token=True,
    )


def vit_tokens(body: Any) -> int:
    """Patches and the class token."""
    tokens: int = body.embeddings.position_embeddings.shape[1]
    return tokens


def _vit_block(layer: Any, config: Any) -> Block:
    reads, heads = layer.attention, config.num_attention_heads
    modules = reads.q_proj, reads.k_proj, reads.v_proj, reads.o_proj
    query, key, value, output = (Weights.of(each) for each in modules)
    attention = Attention(query, key, value, output, heads, (config.hidden_size // heads) ** -0.5)
    mlp = Mlp(Weights.of(layer.mlp.fc1), Weights.of(layer.mlp.fc2), activation_of(config.hidden_act))
    return Block(attention, mlp, (Norm.layer(layer.layernorm_before), Norm.layer(layer.layernorm_after)), pre=True)
