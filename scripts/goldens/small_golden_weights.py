"""The weights of make_small_goldens.py's checkpoints: random, but such that outputs vary."""
import hashlib
import math
import re

import numpy as np
import torch


def seed(*key):
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6], "big")


def normal(shape, spread, *key):
    return torch.from_numpy((np.random.default_rng(seed(*key)).standard_normal(shape) * spread).astype(np.float32))


def unit(rows):  # none of them wins everywhere
    return rows / rows.norm(dim=1, keepdim=True)


def fill(model, tag, family):
    """Weights with which outputs vary: sharp attention, logits a few units apart, no token preferred."""
    config = getattr(model.config, "text_config", None) or model.config
    d, is_t5 = getattr(config, "d_model", None) or config.hidden_size, family.get("t5", False)
    layers = getattr(config, "num_decoder_layers", None) or getattr(config, "decoder_layers", 0)
    last_norm = f"decoder.layers.{layers - 1}." + ("feed_forward_layer_norm." if hasattr(config, "ngram") else "final_layer_norm.")
    if is_t5 or hasattr(model.get_decoder(), "layer_norm"):
        last_norm = "no such norm"
    embedding = 1.0 if is_t5 else 1 / math.sqrt(d)
    for name, value in model.state_dict().items():
        shape, key = tuple(value.shape), (tag, name)
        if "embed_positions" in name or "position_embeddings" in name:
            if type(model).__name__.startswith(("Pegasus", "FSMT")):
                continue
            scaled = getattr(config, "scale_embedding", False)
            new = normal(shape, 1.2 * embedding * (math.sqrt(d) if scaled else 1.0), *key)
        elif name == "lm_head.weight":  # the embeddings
            continue
        elif "ngram_embeddings" in name:
            new = normal(shape, 1.2 * embedding, *key)
        elif "relative_pos_embeddings.weight" in name:
            new = normal(shape, 1.2 / math.sqrt(d), *key)
        elif name.endswith(("shared.weight", "embed_tokens.weight", "word_embeddings.weight")):
            new = unit(normal(shape, 1.0, tag, "tokens")) * embedding * math.sqrt(d)
            if not is_t5:
                new[config.pad_token_id] = 0  # as fairseq has it; positions do not count pads
        elif name == "final_logits_bias":
            new = normal(shape, 0.5, *key)
        elif "relative_attention_bias" in name:
            new = normal(shape, 1.2, *key)
        elif "norm" in name:
            last = last_norm in name or re.search(r"decoder\.(layer_norm|final_layer_norm)\.", name)
            new = normal(shape, 0.12, *key)
            if name.endswith("weight"):
                new = 1 + normal(shape, 0.25, *key)
                if last:  # random signs: a tied output layer does not favour the token before
                    new = new * torch.sign(normal(shape, 1.0, *key, "sign")) * family.get("spread", 2.8)
        elif name.endswith("bias"):
            new = normal(shape, 0.06, *key)
        else:
            factor = 1.0
            if re.search(r"(q_proj|k_proj|query_proj|key_proj|\.q|\.k|query|key|query_global|key_global)\.weight$", name):
                factor = math.sqrt(2.6 / math.sqrt(config.d_kv)) if is_t5 else math.sqrt(2.6)
            elif re.search(r"(out_proj|\.o|self_attn\.output)\.weight$", name):
                factor = 1.0 if "encoder_attn" in name or "EncDec" in name or "cross_att" in name else 1.2
            elif re.search(r"(fc1|wi|wi_0|wi_1|intermediate)\.weight$", name):
                factor = 1.4
            elif re.search(r"(fc2|wo|feed_forward\.output)\.weight$", name):
                factor = 2.2
            new = normal(shape, factor / math.sqrt(shape[1]), *key)
            if re.search(r"(fc2|wo|feed_forward\.output)\.weight$", name):  # the mean activation is no constant output
                new = new - new.mean(1, keepdim=True)
        value.copy_(new)


def fill_gemma(model, tag, family):
    """The same of layers whose norms multiply by 1 + weight."""
    for name, value in model.state_dict().items():
        shape, key = tuple(value.shape), (tag, name)
        if "vision_tower" in name or "multi_modal" in name:
            new = normal(shape, 0.05, *key)
        elif name.endswith("eoi_embedding"):
            new = normal(shape, 1.0, tag, "image end")
        elif name.endswith(("embed_tokens.weight", "out_proj.weight")):
            of = name if name == "model.encoder.embed_tokens.weight" else "tokens"
            new = unit(normal(shape, 1.0, tag, of))
        elif "norm" in name:
            new = normal(shape, 0.25, *key)
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                new = new + math.sqrt(2.6) - 1
            elif "post_cross_attn" in name:
                new = new + 0.4
            elif name == "model.decoder.norm.weight":
                new = (1 + new) * torch.sign(normal(shape, 1.0, *key, "sign")) * 2.8 - 1
        else:
            factor = 1.0
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                factor = math.sqrt(2.6)
            elif name.endswith(("gate_proj.weight", "up_proj.weight")):
                factor = 1.4
            new = normal(shape, factor / math.sqrt(shape[1]), *key)
            if name.endswith("down_proj.weight"):
                new = new - new.mean(1, keepdim=True)
        value.copy_(new)


def fill_sides(model, tag, family):
    """The same of two sides that are models by themselves."""
    last = re.compile(r"transform\.LayerNorm|lm_head\.layer_norm|transformer\.ln_f")
    # As they lie in memory, so that of tied tensors the last one's name counts.
    for name, value in model.state_dict().items():
        shape, key = tuple(value.shape), (tag, name)
        if "word_embeddings" in name or re.search(r"(wte|decoder)\.weight$", name):
            new = unit(normal(shape, 1.0, tag, name[:7], "tokens"))
        elif re.search(r"(position_embeddings|token_type_embeddings|wpe)\.weight$", name):
            new = normal(shape, 1.2 / math.sqrt(shape[1]), *key)
        elif re.search(r"LayerNorm|layer_norm|\.ln_", name):
            new = normal(shape, 0.12, *key)
            if name.endswith("weight"):
                new = 1 + normal(shape, 0.25, *key)
                if last.search(name):
                    new = new * torch.sign(normal(shape, 1.0, *key, "sign")) * family.get("spread", 2.8)
        elif name.endswith("bias"):
            new = normal(shape, 0.06, *key)
        else:
            turned = "decoder.transformer.h." in name  # [in, out]
            factor = 1.0
            if re.search(r"(query|key|c_attn|q_attn)\.weight$", name):
                factor = math.sqrt(2.6)
            elif re.search(r"(intermediate\.dense|c_fc)\.weight$", name):
                factor = 1.4
            elif re.search(r"(layer\.\d+\.output\.dense|mlp\.c_proj)\.weight$", name):
                factor = 2.2
            new = normal(shape, factor / math.sqrt(shape[0 if turned else 1]), *key)
            if factor == 2.2:
                new = new - new.mean(0 if turned else 1, keepdim=True)
        value.copy_(new)
