"""A Whisper of CTranslate2 → a checkpoint as HuggingFace has it. Numbers stay as they are, bit by bit."""
import json
import re
import shutil
import struct

import ctranslate2_file

# CTranslate2's names of a layer → HuggingFace's. A list: rows one behind the other.
NORM = {"gamma": "weight", "beta": "bias"}
ATTENTION = {
    "self_attention": {"layer_norm": "self_attn_layer_norm", "linear_0": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
                       "linear_1": "self_attn.out_proj"},
    "attention": {"layer_norm": "encoder_attn_layer_norm", "linear_0": "encoder_attn.q_proj",
                  "linear_1": ["encoder_attn.k_proj", "encoder_attn.v_proj"], "linear_2": "encoder_attn.out_proj"},
    "ffn": {"layer_norm": "final_layer_norm", "linear_0": "fc1", "linear_1": "fc2"},
}
OUTSIDE = {"embeddings": "embed_tokens", "position_encodings": "embed_positions", "layer_norm": "layer_norm",
           "conv1": "conv1", "conv2": "conv2"}


def names_of(name):
    """HuggingFace's names of the parts of a tensor; none: it is no weight, or another name of one."""
    layer = re.fullmatch(r"(encoder|decoder)/layer_(\d+)/(self_attention|attention|ffn)/(\w+)/(\w+)", name)
    if layer:
        side, number, part, inner, kind = layer.groups()
        target = ATTENTION[part][inner]
        return [f"model.{side}.layers.{number}.{one}.{NORM.get(kind, kind)}"
                for one in (target if isinstance(target, list) else [target])]
    outside = re.fullmatch(r"(encoder|decoder)/(\w+)/(\w+)", name)
    if outside and outside[2] in OUTSIDE:
        kind = "weight" if outside[3] == "encodings" else NORM.get(outside[3], outside[3])
        return [f"model.{outside[1]}.{OUTSIDE[outside[2]]}.{kind}"]
    return []


def weights_of(tensors):
    out = {}
    for name, tensor in tensors.items():
        names = names_of(name)
        if not names and name != "decoder/projection/weight" and len(tensor.shape) > 1 and "alignment" not in name:
            raise ValueError(f"{name}: a tensor of shape {tensor.shape} has no place in a Whisper")
        rows = tensor.shape[0] // len(names) if names else 0
        for i, own in enumerate(names):
            part = tensor.rows(i * rows, (i + 1) * rows) if len(names) > 1 else tensor
            if own.endswith("k_proj.bias"):  # Whisper's keys have none
                if any(part.data):
                    raise ValueError(f"{name}: the keys' bias is not zero")
                continue
            out[own] = part
    return out


def write_safetensors(path, weights):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in weights.items():
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, at + len(tensor.data)]}
        at += len(tensor.data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in weights.values():
            file.write(tensor.data)


def count_layers(weights, side):
    return 1 + max(int(found[1]) for found in (re.match(rf"model\.{side}\.layers\.(\d+)\.", name) for name in weights) if found)


def config_of(weights, heads, first_special):
    embeddings, conv = weights["model.decoder.embed_tokens.weight"].shape, weights["model.encoder.conv1.weight"].shape
    start = first_special + 1
    return {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "activation_function": "gelu",
        "d_model": embeddings[1], "vocab_size": embeddings[0], "num_mel_bins": conv[1],
        "encoder_layers": count_layers(weights, "encoder"), "decoder_layers": count_layers(weights, "decoder"),
        "encoder_attention_heads": heads, "decoder_attention_heads": heads,
        "encoder_ffn_dim": weights["model.encoder.layers.0.fc1.weight"].shape[0],
        "decoder_ffn_dim": weights["model.decoder.layers.0.fc1.weight"].shape[0],
        "max_source_positions": weights["model.encoder.embed_positions.weight"].shape[0],
        "max_target_positions": weights["model.decoder.embed_positions.weight"].shape[0],
        "scale_embedding": False, "is_encoder_decoder": True, "median_filter_width": 7, "use_cache": True,
        "bos_token_id": start, "eos_token_id": first_special, "pad_token_id": first_special, "decoder_start_token_id": start,
        "dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[weights["model.decoder.embed_tokens.weight"].dtype],
    }


def generation_of(config, own, ids):
    """For a model of one language. own: CTranslate2's config.json; ids: of special tokens."""
    return {
        "alignment_heads": own["alignment_heads"], "begin_suppress_tokens": own["suppress_ids_begin"],
        "suppress_tokens": own["suppress_ids"], "bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"],
        "pad_token_id": config["pad_token_id"], "decoder_start_token_id": config["decoder_start_token_id"],
        "no_timestamps_token_id": ids["<|notimestamps|>"], "prev_sot_token_id": ids["<|startofprev|>"],
        "is_multilingual": False, "max_initial_timestamp_index": 50, "max_length": config["max_target_positions"],
        "return_timestamps": False,
    }


def convert(source, out):
    """The folder of a converted Whisper of one language → a checkpoint in `out`, which is made."""
    architecture, tensors = ctranslate2_file.read(source / "model.bin")
    if architecture != "WhisperSpec":
        raise ValueError(f"{source}: {architecture} is no Whisper")
    weights = weights_of(tensors)
    own = json.loads((source / "config.json").read_text())
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    heads = struct.unpack("<h", tensors["encoder/num_heads"].data)[0]
    config = config_of(weights, heads, ids["<|endoftext|>"])
    if config["vocab_size"] != 51864:
        raise ValueError(f"{source}: {config['vocab_size']} tokens are those of a model of many languages, which is not built")
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "model.safetensors", weights)
    bins = config["num_mel_bins"]
    files = {
        "config.json": config, "generation_config.json": generation_of(config, own, ids),
        "preprocessor_config.json": {
            "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": bins, "sampling_rate": 16000, "hop_length": 160,
            "chunk_length": 30, "n_fft": 400, "n_samples": 480000, "nb_max_frames": 3000, "padding_side": "right",
            "padding_value": 0.0, "return_attention_mask": False},
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
            "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "add_prefix_space": False, "model_max_length": 1024,
            "clean_up_tokenization_spaces": True},
    }
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=1) + "\n")
    shutil.copy(source / "tokenizer.json", out / "tokenizer.json")
