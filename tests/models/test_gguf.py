"""A tiny Llama written as a GGUF file with known numbers; the real conversion is checked in test_smollm2."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from robust_attn.models.folder import check_folder, has_tokenizer
from robust_attn.models.gguf import convert_gguf
from robust_attn.types import UserError

WIDTH, HIDDEN, HEADS, VOCABULARY = 32, 64, 2, 260


def _tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    square = ("attn_q", "attn_k", "attn_v", "attn_output")
    shapes = {"token_embd": (VOCABULARY, WIDTH), "output_norm": (WIDTH,)}
    shapes |= {f"blk.0.{name}": (WIDTH, WIDTH) for name in square}
    shapes |= {"blk.0.ffn_gate": (HIDDEN, WIDTH), "blk.0.ffn_up": (HIDDEN, WIDTH), "blk.0.ffn_down": (WIDTH, HIDDEN)}
    shapes |= {"blk.0.attn_norm": (WIDTH,), "blk.0.ffn_norm": (WIDTH,)}
    return {f"{name}.weight": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def gguf_file(tmp_path):
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*(f"<{n}>" for n in range(3)), *(chr(256 + n) for n in range(256)), "Āā"])
    writer.add_token_types([3] * 3 + [1] * 257)
    writer.add_token_merges(["Ā ā"])
    for role in ("bos", "eos", "unk"):
        getattr(writer, f"add_{role}_token_id")(0)
    for name, tensor in _tensors().items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_file_becomes_a_folder_of_weights_with_a_tokenizer_and_is_gone(gguf_file, capfd):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    convert_gguf(gguf_file)
    folder, original = gguf_file.parent, _tensors()
    assert not gguf_file.exists()
    check_folder(folder, "llama")
    assert has_tokenizer(folder)
    weights = load_file(folder / "model.safetensors")
    assert torch.equal(weights["embed_tokens.weight"], torch.from_numpy(original["token_embd.weight"]))
    assert torch.equal(weights["layers.0.self_attn.v_proj.weight"], torch.from_numpy(original["blk.0.attn_v.weight"]))
    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


def test_rotary_rows_are_put_into_the_order_of_transformers(gguf_file):
    """GGUF interleaves the halves that transformers keeps apart: row 2 i + h there is row h * half + i here."""
    convert_gguf(gguf_file)
    half = WIDTH // HEADS // 2
    stored = torch.from_numpy(_tensors()["blk.0.attn_q.weight"]).view(HEADS, half, 2, WIDTH)
    wanted = stored.transpose(1, 2).reshape(WIDTH, WIDTH)
    found = load_file(gguf_file.parent / "model.safetensors")["layers.0.self_attn.q_proj.weight"]
    assert torch.equal(found, wanted)


def test_a_file_that_is_no_gguf_is_a_users_error_and_stays(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF or not")
    with pytest.raises(UserError, match=r"broken\.gguf could not be converted from GGUF"):
        convert_gguf(path)
    assert path.exists()
