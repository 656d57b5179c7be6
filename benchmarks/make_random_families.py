#!/usr/bin/env python3
"""Random checkpoints with the shapes of published models, for benchmarks/compare_peers.py.

    make_random_families.py --out DIR [--shapes t5-base,nllb-600m,marian,whisper-base,whisper-small] [--seed N]

Speed does not depend on the values. They are chosen so that a model does not repeat itself (agreement of engines would
prove nothing): attention to the source decides what comes next. The tokenizer is one word for each id, which is all
that CTranslate2's converter needs. It wants torch and transformers, which compare_peers.py --install fetches.

t5-base: google/flan-t5-base (gated GELU, a head of its own). nllb-600m: facebook/nllb-200-distilled-600M.
marian: Helsinki-NLP/opus-mt-en-de. whisper-base, whisper-small: openai/whisper-*. BART's is build/bin/make_random_bart.
"""
import argparse, json, math, pathlib


def t5_base(transformers):
    config = transformers.T5Config(
        vocab_size=32128, d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_decoder_layers=12, num_heads=12,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return transformers.T5ForConditionalGeneration, config, {"pad": 0, "eos": 1, "unk": 2}


def nllb_600m(transformers):
    config = transformers.M2M100Config(
        vocab_size=256206, d_model=1024, encoder_layers=12, decoder_layers=12, encoder_attention_heads=16,
        decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096, max_position_embeddings=1024,
        scale_embedding=True, tie_word_embeddings=True, decoder_start_token_id=2)
    return transformers.M2M100ForConditionalGeneration, config, {"bos": 0, "pad": 1, "eos": 2, "unk": 3}


def marian(transformers):
    config = transformers.MarianConfig(
        vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        activation_function="swish", scale_embedding=True, tie_word_embeddings=True, pad_token_id=58100, eos_token_id=0,
        bos_token_id=0, forced_eos_token_id=0, decoder_start_token_id=58100)
    return transformers.MarianMTModel, config, {"eos": 0, "unk": 1, "pad": 58100}


SPEECH_TOKENS = {"<|startoftranscript|>": 50258, "<|en|>": 50259, "<|transcribe|>": 50359, "<|nospeech|>": 50362,
                 "<|notimestamps|>": 50363}


def whisper(width, layers):
    def shape(transformers):
        config = transformers.WhisperConfig(
            vocab_size=51865, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=width // 64,
            decoder_attention_heads=width // 64, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, bos_token_id=50257,
            eos_token_id=50257, pad_token_id=50257, decoder_start_token_id=50258, suppress_tokens=None, begin_suppress_tokens=None)
        return transformers.WhisperForConditionalGeneration, config, {
            "eos": 50257, "unk": 50256, **SPEECH_TOKENS}
    return shape


SHAPES = {"t5-base": t5_base, "nllb-600m": nllb_600m, "marian": marian, "whisper-base": whisper(512, 6),
          "whisper-small": whisper(768, 12)}


def deviation(name, weight, config):
    """Of a tensor's values; None: left as the library makes it."""
    if weight.dim() < 2 or "embed_positions" in name:
        return None
    t5 = config.model_type == "t5"
    if "relative_attention_bias" in name:
        return 0.5
    if "conv" in name:
        return 1 / math.sqrt(weight.shape[1] * weight.shape[2])
    if "proj_out" in name or "lm_head" in name or "shared" in name or "embed_tokens" in name:
        return 1.0 if t5 and "lm_head" not in name else 0.04
    gain = 0.4
    cross = "EncDecAttention" in name or "encoder_attn" in name
    if any(name.endswith(f".{part}.weight") for part in ("q", "k", "q_proj", "k_proj")):
        # T5 does not scale its scores. Sharper attention makes a model chaotic: rounding alone changes its tokens.
        gain = 2 / math.sqrt(math.sqrt(config.d_kv)) if t5 else 2.5 if cross else 1.4
    elif "ttention" in name or "attn" in name:
        gain = 3 if cross else 0.6
    return gain / math.sqrt(weight.shape[1])


def write_tokenizer(folder, size, special):
    names = {"eos": "<|endoftext|>" if "<|en|>" in special else "</s>", "pad": "<pad>", "unk": "<unk>", "bos": "<s>"}
    names |= {kind: kind for kind in special if kind not in names}
    words = {i: f"w{i}" for i in range(size)} | {i: names[kind] for kind, i in special.items()}
    added = [{"id": i, "content": names[kind], "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for kind, i in sorted(special.items(), key=lambda s: s[1])]
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "pre_tokenizer": space, "post_processor": None, "decoder": space,
                 "model": {"type": "Unigram", "vocab": [[words[i], -10.0] for i in range(size)],
                           "unk_id": special["unk"], "byte_fallback": False}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", **{f"{kind}_token": names[kind] for kind in special if kind in ("eos", "pad", "unk", "bos")}}))


def make(shape, out, seed):
    import torch, transformers

    kind, config, special = SHAPES[shape](transformers)
    torch.manual_seed(seed)
    with torch.no_grad():
        model = kind(config)
        for name, weight in model.named_parameters():
            spread = deviation(name, weight, config)
            if spread is not None:
                weight.normal_(0, spread)
        if config.pad_token_id is not None:
            model.get_input_embeddings().weight[config.pad_token_id] = 0  # Marian starts from it
        model.tie_weights()
    folder = out / f"random-{shape}"
    model.generation_config.forced_eos_token_id = None  # lengths are the benchmark's
    if config.model_type == "marian":
        model.generation_config.bad_words_ids = [[config.pad_token_id]]  # as published
    model.save_pretrained(folder, max_shard_size="100GB")
    write_tokenizer(folder, config.vocab_size, special)
    if config.model_type == "whisper":
        transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(folder)
    print(f"{folder}: {sum(w.numel() for w in model.parameters()) / 1e6:.0f} million parameters")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--shapes", default=",".join(SHAPES))
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    for shape in args.shapes.split(","):
        if shape not in SHAPES:
            p.error(f"no shape {shape}: {', '.join(SHAPES)}")
        make(shape, args.out, args.seed)


if __name__ == "__main__":
    main()
