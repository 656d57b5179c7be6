#!/usr/bin/env python3
"""Writes tests/data/sound-models: small random checkpoints of sound, and what HuggingFace makes of some clips.

    make_sound_models.py DIR [NAME ...]     needs transformers 5.24, torch

Sample i of the clip k is (i * (i + 37 + 11 k) mod 2003 - 1001) / 4096. golden.json: for each case its clip and length, the
decoder's prompt, greedy search or beams, the smallest distance of the best two logits. golden.safetensors: what the encoder
gets and its states. The tokenizer is one for bytes, which has no file.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import transformers as T
from safetensors.torch import save_file

VOCABULARY, D = 60, 16
MARGIN = 2e-3
T.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.set_grad_enabled(False)


def clip(k, length):
    i = np.arange(length, dtype=np.int64)
    return ((i * (i + 37 + 11 * k) % 2003 - 1001) / 4096).astype(np.float32)


def conformer(width, **more):
    return {"model_type": "parakeet_encoder", "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 20, "conv_kernel_size": 5, "num_mel_bins": 16, "subsampling_conv_channels": 4,
            "max_position_embeddings": 50} | more


def wave(**more):
    return {"model_type": "wav2vec2", "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 20, "conv_dim": [6, 8], "conv_kernel": [10, 4], "conv_stride": [20, 10],
            "num_conv_pos_embedding_groups": 3, "mask_time_prob": 0.0} | more


BART = {"d_model": D, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 24, "vocab_size": VOCABULARY,
        "max_position_embeddings": 40, "is_decoder": True, "add_cross_attention": True, "is_encoder_decoder": False,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
DECODER = {"vocab_size": VOCABULARY, "hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
           "max_position_embeddings": 40}
ENDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
NEMO = {"feature_size": 16, "sampling_rate": 16000}

# name: (config.json, preprocessor_config.json, feature extractor, model)
MODELS = {
    # The even width leaves a row that is masked.
    "filter-banks": (
        {"model_type": "speech_to_text", "vocab_size": VOCABULARY, "d_model": D, "encoder_layers": 2, "decoder_layers": 2,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
         "conv_channels": 12, "conv_kernel_sizes": [5, 4], "input_feat_per_channel": 20, "max_source_positions": 100,
         "max_target_positions": 40} | ENDS,
        {"feature_size": 20, "num_mel_bins": 20}, T.Speech2TextFeatureExtractor, T.Speech2TextForConditionalGeneration),
    "waves-layers": (
        {"model_type": "speech-encoder-decoder", "tie_word_embeddings": False,
         "encoder": wave(feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True, num_conv_pos_embeddings=7,
                         add_adapter=True, num_adapter_layers=1, output_hidden_size=D),
         "decoder": BART | {"model_type": "mbart", "scale_embedding": True}} | ENDS,
        {"do_normalize": True, "return_attention_mask": True}, T.Wav2Vec2FeatureExtractor, T.SpeechEncoderDecoderModel),
    # The sides' widths differ.
    "waves-groups": (
        {"model_type": "speech-encoder-decoder", "tie_word_embeddings": False,
         "encoder": wave(feat_extract_norm="group", num_conv_pos_embeddings=8),
         "decoder": BART | {"model_type": "bart"}} | ENDS,
        {"do_normalize": True, "return_attention_mask": False}, T.Wav2Vec2FeatureExtractor, T.SpeechEncoderDecoderModel),
    "frames": (
        {"model_type": "moonshine_streaming", "head_dim": 9, "num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                                               "partial_rotary_factor": 0.8},
         "encoder_config": {"model_type": "moonshine_streaming_encoder", "hidden_size": 12, "num_hidden_layers": 3,
                            "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 20,
                            "sliding_windows": [[4, 3], [3, 0], [5, 2]]}} | DECODER | ENDS,
        {"do_normalize": False, "return_attention_mask": True}, T.Wav2Vec2FeatureExtractor,
        T.MoonshineStreamingForConditionalGeneration),
    "spectra": (
        {"model_type": "canary", "vocab_size": VOCABULARY, "encoder_config": conformer(D, scale_input=True),
         "decoder_config": DECODER | {"head_dim": 6, "num_key_value_heads": 1}} | ENDS,
        NEMO, T.ParakeetFeatureExtractor, T.CanaryForConditionalGeneration),
    "spectra-noise": (
        {"model_type": "cohere_asr", "encoder_config": conformer(12, scale_input=False, convolution_bias=False, attention_bias=False)}
        | DECODER | ENDS,
        NEMO | {"dither": 0.01}, T.CohereAsrFeatureExtractor, T.CohereAsrForConditionalGeneration),
}
CASES = [(0, 2200, [], {}), (1, 7013, [], {}), (2, 4160, [7, 9], {}), (3, 5555, [], {"num_beams": 3, "num_return_sequences": 2})]


def fill(model, attempt):
    generator = torch.Generator().manual_seed(100 + attempt)
    for name, p in model.state_dict().items():
        if not p.is_floating_point() or "position" in name and "conv" not in name:
            continue
        noise = torch.randn(p.shape, generator=generator)
        norm = "norm" in name or name.endswith(("gamma", "weight_g", "original0"))
        if name.endswith("running_var"):
            new = 0.5 + noise.abs()
        elif norm and not name.endswith("bias"):
            new = 1 + 0.2 * noise
        elif p.dim() <= 1:
            new = 0.2 * noise
        else:
            fan = p[0].numel() if "embed" not in name and "pos_emb" not in name else 1
            new = noise * (1.6 / math.sqrt(fan))
        p.copy_(new.half())


def inputs_of(extractor, samples, model):
    arguments = {"sampling_rate": 16000, "return_tensors": "pt"}
    if "Moonshine" in type(model).__name__:
        arguments |= {"padding": True, "pad_to_multiple_of": 80}
    out = extractor(samples, **arguments)
    return {k: v for k, v in out.items() if k in ("input_values", "input_features", "attention_mask")}


def run(model, extractor):
    cases, tensors = [], {}
    for k, length, prompt, options in CASES:
        inputs = inputs_of(extractor, clip(k, length), model)
        ids = [model.config.decoder_start_token_id] + prompt
        settings = {"num_beams": 1, "do_sample": False, "max_new_tokens": 16} | options
        out = model.generate(**inputs, decoder_input_ids=torch.tensor([ids]), output_scores=True, return_dict_in_generate=True,
                             **settings)
        case = {"name": f"clip_{k}", "clip": k, "samples": length, "decoder_prompt_ids": ids, "generation": settings}
        if settings["num_beams"] > 1:
            case["sequences"] = out.sequences.tolist()
            case["min_margin"] = float((out.sequences_scores[0] - out.sequences_scores[1]).abs())
        else:
            top = torch.stack(out.scores)[:, 0].topk(2).values
            case |= {"output_ids": out.sequences[0].tolist(), "min_margin": float((top[:, 0] - top[:, 1]).min())}
        cases.append(case)
        features = inputs.get("input_features", inputs.get("input_values"))[0]
        mask = inputs.get("attention_mask")
        if "input_features" in inputs and mask is not None:
            features = features[mask[0].bool()]
        tensors[f"clip_{k}.input"] = features if features.dim() > 1 else features[::13]
        states = model.get_encoder()(**inputs).last_hidden_state[0].clone()
        tensors[f"clip_{k}.encoder_last_hidden_state"] = states
    return cases, tensors


def write_json(path, value, indent=1):
    path.write_text(json.dumps(value, indent=indent) + "\n")


def make(out, name):
    config, processor, extractor_class, model_class = MODELS[name]
    extractor = extractor_class(**processor)
    for attempt in range(120):
        made = T.AutoConfig.for_model(**json.loads(json.dumps(config)))
        model = model_class(made).eval()
        model.generation_config.max_length = 40
        model.generation_config.forced_eos_token_id = None
        fill(model, attempt)
        cases, tensors = run(model, extractor)
        outputs = [c.get("output_ids", c.get("sequences", [[]])[0]) for c in cases]
        least = 3 if name == "waves-groups" else 4  # this one says little
        lively = all(len(set(o)) >= least for o in outputs) and len({tuple(o) for o in outputs}) == len(outputs)
        if lively and all(c["min_margin"] > MARGIN for c in cases):
            break
    else:
        raise SystemExit(f"{name}: no weights")
    out.mkdir(parents=True, exist_ok=True)
    print(name, attempt, [c["min_margin"] for c in cases], outputs)
    write_json(out / "config.json", {"architectures": [model_class.__name__], "is_encoder_decoder": True, "dtype": "float16"} | config)
    write_json(out / "preprocessor_config.json", processor | {"feature_extractor_type": extractor_class.__name__})
    write_json(out / "tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer"})
    if "decoder" in config:  # whose class forces an end, where no file of settings says otherwise
        write_json(out / "generation_config.json", ENDS)
    write_json(out / "golden.json", cases, None)
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, out / "golden.safetensors")
    tied = {"proj_out.weight", "lm_head.weight"} if getattr(model.config, "tie_word_embeddings", False) else set()
    tied |= {"decoder.lm_head.weight"}
    save_file({k: v.half().contiguous() if v.is_floating_point() else v for k, v in model.state_dict().items() if k not in tied},
              out / "model.safetensors")


def main():
    for name in sys.argv[2:] or MODELS:
        make(pathlib.Path(sys.argv[1]) / name, name)


if __name__ == "__main__":
    main()
