#!/usr/bin/env python3
"""Random checkpoints with the shapes of published models, for benchmarks/compare_peers.py and long_inputs.py.

    make_random_families.py --out DIR [--shapes t5-base,nllb-600m,marian,whisper-base,…] [--seed N]

Speed does not depend on the values. They are chosen so that a model does not repeat itself (agreement of engines would
prove nothing): attention to the source decides what comes next. The tokenizer is one word for each id, which is all
that CTranslate2's converter needs. It wants torch and transformers, which compare_peers.py --install fetches.

t5-base: google/flan-t5-base (gated GELU, a head of its own). nllb-600m: facebook/nllb-200-distilled-600M.
marian: Helsinki-NLP/opus-mt-en-de. whisper-base, whisper-small, whisper-large-v3-turbo: openai/whisper-*. BART's is build/bin/make_random_bart.

pegasus-large, blenderbot-400m, plbart-base, switch-base-8: google/pegasus-large, facebook/blenderbot-400M-distill,
uclanlp/plbart-base, google/switch-base-8.

fsmt, prophetnet-large, bert2bert, seamless-medium, t5gemma2-270m: facebook/wmt19-en-ru, microsoft/prophetnet-large-uncased,
two google-bert/bert-base-uncased, the text of facebook/hf-seamless-m4t-medium, google/t5gemma-2-270m-270m with a small encoder of
images. nllb-moe-8: layers of facebook/nllb-moe-54b's kind at half its width, 6 and 6, every third with 8 experts.
longt5-local-base, longt5-tglobal-base, pegasus-x-base, bigbird-large: google/long-t5-*-base, google/pegasus-x-base,
google/bigbird-pegasus-large-arxiv.

Those of random_pictures.py, for compare_requests.py: vit-gpt2, trocr-base, nougat-small, blip-base, pix2struct-base, florence2-base,
donut-cord, udop-6, t5gemma2-image-4, bart-classify, t5-encoder.

For long inputs, all of one small size (six layers of 512, of the decoder two), with the attention of the published models:
longt5-local, longt5-tglobal, pegasus-x, bigbird, led; bart beside them, which attends to everything.
"""
import argparse, json, math, pathlib

import random_pictures
from random_pictures import BART_TOKENS


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


T5_TOKENS = {"pad": 0, "eos": 1, "unk": 2}


def fairseq(kind, tokens, d_model, layers, heads, ffn, vocab, **more):
    encoder, decoder = layers if isinstance(layers, tuple) else (layers, layers)

    def shape(transformers):
        settings = dict(vocab_size=vocab, d_model=d_model, encoder_layers=encoder, decoder_layers=decoder, encoder_attention_heads=heads,
                        decoder_attention_heads=heads, encoder_ffn_dim=ffn, decoder_ffn_dim=ffn, decoder_start_token_id=tokens["eos"],
                        **{f"{name}_token_id": i for name, i in tokens.items() if name in ("bos", "pad", "eos")})
        config = getattr(transformers, kind + "Config")(**{**settings, **more})
        return getattr(transformers, kind + "ForConditionalGeneration"), config, tokens
    return shape


def switch_base_8(transformers):
    config = transformers.SwitchTransformersConfig(
        vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12, num_experts=8,
        num_sparse_encoder_layers=6, num_sparse_decoder_layers=6, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return transformers.SwitchTransformersForConditionalGeneration, config, T5_TOKENS


def longt5(attention, d_model=512, d_ff=1024, layers=(6, 2), heads=8):
    def shape(transformers):
        config = transformers.LongT5Config(
            vocab_size=32128, d_model=d_model, d_kv=64, d_ff=d_ff, num_layers=layers[0], num_decoder_layers=layers[1], num_heads=heads,
            local_radius=127, global_block_size=16, encoder_attention_type=attention, feed_forward_proj="gated-gelu", decoder_start_token_id=0,
            pad_token_id=0, eos_token_id=1)
        return transformers.LongT5ForConditionalGeneration, config, T5_TOKENS
    return shape


def fsmt(transformers):
    config = transformers.FSMTConfig(
        langs=["en", "ru"], src_vocab_size=31232, tgt_vocab_size=31640, d_model=1024, encoder_layers=6, decoder_layers=6,
        encoder_ffn_dim=8192, decoder_ffn_dim=4096, max_position_embeddings=1024, tie_word_embeddings=False)
    return transformers.FSMTForConditionalGeneration, config, BART_TOKENS


def prophetnet_large(transformers):
    config = transformers.ProphetNetConfig(max_position_embeddings=512, pad_token_id=0, bos_token_id=102, eos_token_id=102,
                                           decoder_start_token_id=102)
    return transformers.ProphetNetForConditionalGeneration, config, {"pad": 0, "unk": 100, "eos": 102}


def bert2bert(transformers):
    side = lambda **more: transformers.BertConfig(**more)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        side(), side(is_decoder=True, add_cross_attention=True), decoder_start_token_id=101, eos_token_id=102, pad_token_id=0,
        vocab_size=30522)
    return transformers.EncoderDecoderModel, config, {"pad": 0, "unk": 100, "eos": 102}


def seamless_medium(transformers):
    config = transformers.SeamlessM4TConfig(
        vocab_size=256206, encoder_layers=12, decoder_layers=12, encoder_ffn_dim=4096, decoder_ffn_dim=4096, pad_token_id=0,
        bos_token_id=2, eos_token_id=3, decoder_start_token_id=3)
    return transformers.SeamlessM4TForTextToText, config, {"pad": 0, "unk": 1, "bos": 2, "eos": 3}


def nllb_moe_8(transformers):
    config = transformers.NllbMoeConfig(
        vocab_size=32000, d_model=1024, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=4096, decoder_ffn_dim=4096,
        num_experts=8, encoder_sparse_step=3, decoder_sparse_step=3, max_position_embeddings=1024, scale_embedding=True,
        moe_eval_capacity_token_fraction=1.0, decoder_start_token_id=2, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    return transformers.NllbMoeForConditionalGeneration, config, BART_TOKENS


def t5gemma2_270m(transformers):
    text = dict(vocab_size=262144, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
                num_key_value_heads=1, head_dim=256, query_pre_attn_scalar=256, sliding_window=512, pad_token_id=0, bos_token_id=2,
                eos_token_id=1, layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(18)],
                rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})
    vision = dict(model_type="siglip_vision_model", hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                  image_size=64, patch_size=16, vision_use_head=False)
    config = transformers.T5Gemma2Config(
        encoder={"text_config": text, "vision_config": vision, "mm_tokens_per_image": 16, "image_token_index": 256001},
        decoder=text, image_token_index=256001, vocab_size=262144, pad_token_id=0, bos_token_id=2, eos_token_id=1)
    return transformers.T5Gemma2ForConditionalGeneration, config, {"pad": 0, "eos": 1, "bos": 2, "unk": 3}


LONGEST = 16384
SMALL = dict(d_model=512, layers=(6, 2), heads=8, ffn=2048, vocab=32128)

SPEECH_TOKENS = {"<|startoftranscript|>": 50258, "<|en|>": 50259, "<|transcribe|>": 50359, "<|nospeech|>": 50362,
                 "<|notimestamps|>": 50363}


def whisper(width, layers, decoder_layers=None, vocabulary=51865, bins=80):
    def shape(transformers):
        config = transformers.WhisperConfig(
            vocab_size=vocabulary, num_mel_bins=bins, d_model=width, encoder_layers=layers, decoder_layers=decoder_layers or layers,
            encoder_attention_heads=width // 64,
            decoder_attention_heads=width // 64, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, bos_token_id=50257,
            eos_token_id=50257, pad_token_id=50257, decoder_start_token_id=50258, suppress_tokens=None, begin_suppress_tokens=None)
        return transformers.WhisperForConditionalGeneration, config, {
            "eos": 50257, "unk": 50256, **SPEECH_TOKENS}
    return shape


PUBLISHED = {"t5-base": t5_base, "nllb-600m": nllb_600m, "marian": marian, "whisper-base": whisper(512, 6),
             "whisper-small": whisper(768, 12), "whisper-large-v3-turbo": whisper(1280, 32, 4, 51866, 128)}
MORE = {
    "pegasus-large": fairseq("Pegasus", {"pad": 0, "eos": 1, "unk": 105}, 1024, 16, 16, 4096, 96103, scale_embedding=True,
                             max_position_embeddings=1024, activation_function="relu", decoder_start_token_id=0, forced_eos_token_id=None),
    "blenderbot-400m": fairseq("Blenderbot", {"pad": 0, "bos": 1, "eos": 2, "unk": 3}, 1280, (2, 12), 32, 5120, 8008, scale_embedding=True,
                               max_position_embeddings=1024, decoder_start_token_id=1, forced_eos_token_id=None),
    "plbart-base": fairseq("PLBart", BART_TOKENS, 768, 6, 12, 3072, 50005, scale_embedding=True, forced_eos_token_id=None),
    "switch-base-8": switch_base_8, "fsmt": fsmt, "prophetnet-large": prophetnet_large, "bert2bert": bert2bert,
    "seamless-medium": seamless_medium, "nllb-moe-8": nllb_moe_8, "t5gemma2-270m": t5gemma2_270m,
    "longt5-local-base": longt5("local", 768, 2048, (12, 12), 12),
    "longt5-tglobal-base": longt5("transient-global", 768, 2048, (12, 12), 12),
    "pegasus-x-base": fairseq("PegasusX", {"pad": 0, "eos": 1, "unk": 105}, 768, 12, 12, 3072, 96103, max_position_embeddings=16384,
                              num_global_tokens=128, block_size=512, stagger_local_blocks=True, scale_embedding=True,
                              decoder_start_token_id=0, forced_eos_token_id=None),
    "bigbird-large": fairseq("BigBirdPegasus", {"pad": 0, "eos": 1, "bos": 2, "unk": 105}, 1024, 16, 16, 4096, 96103,
                             max_position_embeddings=4096, attention_type="block_sparse", block_size=64, num_random_blocks=3,
                             scale_embedding=True, decoder_start_token_id=2),
}
LONG = {
    "longt5-local": longt5("local"), "longt5-tglobal": longt5("transient-global"),
    "pegasus-x": fairseq("PegasusX", {"pad": 0, "eos": 1, "unk": 105}, **SMALL, max_position_embeddings=LONGEST, num_global_tokens=32,
                         block_size=512, stagger_local_blocks=True, decoder_start_token_id=0, forced_eos_token_id=None),
    "bigbird": fairseq("BigBirdPegasus", {"pad": 0, "eos": 1, "bos": 2, "unk": 105}, **SMALL, max_position_embeddings=LONGEST,
                       attention_type="block_sparse", block_size=64, num_random_blocks=3, decoder_start_token_id=2),
    "led": fairseq("LED", BART_TOKENS, **SMALL, attention_window=[1024] * 6, max_encoder_position_embeddings=LONGEST),
    "bart": fairseq("Bart", BART_TOKENS, **SMALL, max_position_embeddings=LONGEST, forced_eos_token_id=None),
}
SHAPES = {**PUBLISHED, **MORE, **LONG, **random_pictures.SHAPES}


def deviation(name, weight, config):
    """Of a tensor's values; None: left as the library makes it."""
    if weight.dim() < 2 or "embed_positions" in name:
        return None
    d_kv = getattr(config, "d_kv", None) or getattr(getattr(config, "text_config", None), "d_kv", None)
    t5 = d_kv is not None
    if "mm_input_projection" in name:
        return 1 / math.sqrt(weight.shape[0])
    if (t5 or "vision_tower" in name) and (weight.dim() == 4 or "patch_projection" in name):
        return 1 / math.sqrt(weight[0].numel())
    if any(part in name for part in ("row_embedder", "column_embedder", "cell_2d_embedding")):
        return 0.2  # what a picture or a page says counts for more than its places
    if "relative_attention_bias" in name:
        return 0.5
    if "conv" in name:
        return 1 / math.sqrt(weight.shape[1] * weight.shape[2])
    if "proj_out" in name or "lm_head" in name or "shared" in name or "embed" in name:
        return 1.0 if t5 and "lm_head" not in name else 0.04
    gain = 0.4
    cross = any(part in name for part in ("EncDecAttention", "encoder_attn", "crossattention", "cross_attn", "cross_attention",
                                         "encoder_decoder_attention"))
    if any(name.endswith(f".{part}.weight") for part in ("q", "k", "q_proj", "k_proj", "query", "key", "query_proj", "key_proj")):
        # T5 does not scale its scores. Sharper attention makes a model chaotic: rounding alone changes its tokens.
        gain = 2 / math.sqrt(math.sqrt(d_kv)) if t5 else 2.5 if cross else 1.4
    elif "ttention" in name or "attn" in name:
        gain = 3 if cross else 0.6
    return gain / math.sqrt(weight[0].numel())


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
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.fill_(0.4)  # Gemma's factor is 1 more; 1 alone would attend to everything alike
        table = model.get_input_embeddings()
        if getattr(config, "pad_token_id", None) is not None and isinstance(table, torch.nn.Embedding):
            table.weight[config.pad_token_id] = 0  # Marian starts from it
        model.tie_weights()
    folder = out / f"random-{shape}"
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.forced_eos_token_id = None  # lengths are the benchmark's
    if config.model_type == "marian":
        model.generation_config.bad_words_ids = [[config.pad_token_id]]  # as published
    model.save_pretrained(folder, max_shard_size="100GB")
    text = getattr(config, "text_config", None) or config
    write_tokenizer(folder, getattr(text, "vocab_size", None) or text.src_vocab_size, special)
    if shape in random_pictures.PREPROCESSORS:
        (folder / "preprocessor_config.json").write_text(json.dumps(random_pictures.PREPROCESSORS[shape]))
    if config.model_type == "whisper":
        transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(folder)
    print(f"{folder}: {sum(w.numel() for w in model.parameters()) / 1e6:.0f} million parameters")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--shapes", default=",".join(PUBLISHED))
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    for shape in args.shapes.split(","):
        if shape not in SHAPES:
            p.error(f"no shape {shape}: {', '.join(SHAPES)}")
        make(shape, args.out, args.seed)


if __name__ == "__main__":
    main()
