#!/usr/bin/env python3
"""Writes tests/data/clip-tiny: a random checkpoint whose encoder hears whole clips, and what HuggingFace makes of three.

    make_clip_golden.py DIR     needs transformers, torch, tokenizers

Heads of 8 elements of which 0.9 turn (7, so 8 do), sound that is normalised, a tokenizer of bytes and a few pieces.
Sample i of the clip k is (i * (i + 37 + 11 k) mod 2003 - 1001) / 4096. golden.json: for each clip its length, greedy and
beam search, ids with the prompt, no two tokens twice, the smallest distance of the best two logits; texts and their ids,
ids and their text. golden.safetensors: samples as the model gets them, states of the encoder, logits of the first ids.
"""
import json, pathlib, sys

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import MoonshineConfig, MoonshineForConditionalGeneration, PreTrainedTokenizerFast, Wav2Vec2FeatureExtractor

LENGTHS = [895, 1500, 7013]


def clip(k, length):
    i = np.arange(length, dtype=np.int64)
    return ((i * (i + 37 + 11 * k) % 2003 - 1001) / 4096).astype(np.float32)


def make_model(vocab_size):
    torch.manual_seed(9)
    model = MoonshineForConditionalGeneration(MoonshineConfig(
        vocab_size=vocab_size, hidden_size=16, intermediate_size=24, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
        encoder_num_attention_heads=2, decoder_num_attention_heads=2, max_position_embeddings=40)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.1 if "conv" in name else 0.5 if p.dim() > 1 else 0.2
            p.copy_((torch.randn_like(p) * scale + ("norm" in name and name.endswith("weight"))).half())
    return model


def make_tokenizer(out):
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + list("\u2581abcdehlnorstw") + ["th", "the", "\u2581the"]
    merges = [("t", "h"), ("th", "e"), ("\u2581", "the")]
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.save(str(out / "tokenizer.json"), pretty=False)
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>")


def texts_of(tokenizer):
    texts = ["", "the other", "  two spaces", "\u00e9 of bytes", "</s> the", " "]
    space, ids = 3 + 0x20, [1, 35, 272, 100, 2, 276]
    lists = [[space, 270], [space, 3 + 0xFF], [1, space, 270], [space, space, 3 + 0x41], [276, 276], [259, 259, 260], ids, [3 + 0xC3, 3 + 0xA9, 270]]
    return {"texts": [{"text": t, "ids": tokenizer(t)["input_ids"]} for t in texts],
            "decoded": [{"ids": i, "all": tokenizer.decode(i, skip_special_tokens=False),
                         "text": tokenizer.decode(i, skip_special_tokens=True)} for i in lists]}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(out)
    model = make_model(len(tokenizer))
    extractor = Wav2Vec2FeatureExtractor(do_normalize=True, sampling_rate=16000)
    clips, tensors = [], {}
    for k, length in enumerate(LENGTHS):
        values = torch.from_numpy(np.asarray(extractor(clip(k, length), sampling_rate=16000)["input_values"][0]))[None]
        with torch.no_grad():
            greedy = model.generate(values, max_new_tokens=24, num_beams=1, do_sample=False, no_repeat_ngram_size=2, output_scores=True,
                                    return_dict_in_generate=True)
            top = torch.stack(greedy.scores)[:, 0].topk(2).values
            beams = model.generate(values, max_new_tokens=12, num_beams=3, do_sample=False, no_repeat_ngram_size=2)
            run = model(input_values=values, decoder_input_ids=greedy.sequences[:, :6])
        clips.append({"samples": length, "greedy": greedy.sequences[0].tolist(), "beams": beams[0].tolist(),
                      "min_margin": float((top[:, 0] - top[:, 1]).min())})
        tensors |= {f"{k}.samples": values[0, ::13], f"{k}.encoder": run.encoder_last_hidden_state[0], f"{k}.logits": run.logits[0]}
    print([(c["samples"], c["min_margin"], c["greedy"], c["beams"]) for c in clips])
    (out / "golden.json").write_text(json.dumps({"clips": clips} | texts_of(tokenizer)) + "\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, out / "golden.safetensors")
    save_file({k: v.half().contiguous() for k, v in model.state_dict().items() if k != "proj_out.weight"}, out / "model.safetensors")
    keep = ("vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings", "encoder_num_hidden_layers",
            "decoder_num_hidden_layers", "encoder_num_attention_heads", "decoder_num_attention_heads", "encoder_hidden_act",
            "decoder_hidden_act", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    config = {k: getattr(model.config, k) for k in keep}
    (out / "config.json").write_text(json.dumps(
        {"architectures": ["MoonshineForConditionalGeneration"], "model_type": "moonshine", "is_encoder_decoder": True,
         "torch_dtype": "float16", "rope_theta": 10000.0, "partial_rotary_factor": 0.9} | config, indent=1) + "\n")
    (out / "preprocessor_config.json").write_text(json.dumps(
        {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "do_normalize": True, "feature_size": 1, "sampling_rate": 16000},
        indent=1) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
         "pad_token": "</s>"}) + "\n")


if __name__ == "__main__":
    main()
