"""A language model of 90,000 random weights in the format GGUF, which llama.cpp serves."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, HIDDEN, CONTEXT = 64, 128, 131_072
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TOKENS = ["<unk>", "<s>", "</s>", *BYTES, "▁", *map(chr, range(33, 127))]
TYPES = [2, 3, 3, *[6] * len(BYTES), *[1] * 95]
"""Unknown, control, bytes, and whole characters."""
END = TOKENS.index("</s>")
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def write(path: Path, seed: int = 1) -> Path:
    """Write the model. It ends an answer after some tokens, most of which are no text."""
    random = np.random.default_rng(seed)
    weights = {
        "token_embd": (len(TOKENS), WIDTH), "output": (len(TOKENS), WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (WIDTH, WIDTH),
        "blk.0.attn_v": (WIDTH, WIDTH), "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (HIDDEN, WIDTH), "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }  # fmt: skip
    drawn = {name: random.normal(0, 0.05, shape) for name, shape in weights.items()}
    drawn["token_embd"][:, 0] = 1.0  # a constant, by which one token can be likelier than others
    drawn["output"][END, 0] = 0.6
    norms = ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")
    writer = gguf.GGUFWriter(str(path), "llama")
    _write_facts(writer)
    for name, values in (drawn | {name: np.ones(WIDTH) for name in norms}).items():
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_facts(writer: gguf.GGUFWriter) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types(TYPES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
