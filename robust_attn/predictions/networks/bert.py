"""Encoders with norms after the residual sums: BERT, RoBERTa, ELECTRA, DistilBERT."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from robust_attn.predictions.networks.readout import Readout
from robust_attn.predictions.steps import Attention, Block, Mlp, Network, Norm, Weights, activation_of


def bert_network(body: Any, length: int, readout: Readout) -> Network:
    """BERT, RoBERTa (whose positions begin behind the padding index), ELECTRA (whose embeddings may be narrower)."""
    table = body.embeddings
    offset = _positions(table, length) + table.token_type_embeddings.weight[0].detach().double()
    wider = getattr(body, "embeddings_project", None)
    return Network(
        offset,
        tuple(_bert_block(layer, body.config) for layer in body.encoder.layer),
        readout.pooling,
        readout.head,
        input_norm=Norm.layer(table.LayerNorm),
        widen=None if wider is None else Weights.of(wider),
    )


def distilbert_network(body: Any, length: int, readout: Readout) -> Network:
    """DistilBERT: no token types, other names."""
    blocks = tuple(_distilbert_block(layer, body.config) for layer in body.transformer.layer)
    table = body.embeddings
    offset = _positions(table, length)
    return Network(offset, blocks, readout.pooling, readout.head, input_norm=Norm.layer(table.LayerNorm))


def _positions(table: Any, length: int) -> Tensor:
    padding = table.position_embeddings.padding_idx
    first = 0 if padding is None else padding + 1
    positions: Tensor = table.position_embeddings.weight[first : first + length].detach().double()
    return positions


def _bert_block(layer: Any, config: Any) -> Block:
    reads, writes = layer.attention.self, layer.attention.output
    heads = config.num_attention_heads
    scale = (config.hidden_size // heads) ** -0.5
    query, key, value, output = (Weights.of(each) for each in (reads.query, reads.key, reads.value, writes.dense))
    mlp = Mlp(Weights.of(layer.intermediate.dense), Weights.of(layer.output.dense), activation_of(config.hidden_act))
    norms = Norm.layer(writes.LayerNorm), Norm.layer(layer.output.LayerNorm)
    return Block(Attention(query, key, value, output, heads, scale), mlp, norms, pre=False)


def _distilbert_block(layer: Any, config: Any) -> Block:
    reads, heads = layer.attention, config.n_heads
    query, key, value, output = (Weights.of(each) for each in (reads.q_lin, reads.k_lin, reads.v_lin, reads.out_lin))
    attention = Attention(query, key, value, output, heads, (config.dim // heads) ** -0.5)
    mlp = Mlp(Weights.of(layer.ffn.lin1), Weights.of(layer.ffn.lin2), activation_of(config.activation))
    return Block(attention, mlp, (Norm.layer(layer.sa_layer_norm), Norm.layer(layer.output_layer_norm)), pre=False)
