#!/usr/bin/env python3
"""Writes tests/data/vision-tiny: a random VisionEncoderDecoder checkpoint with the tensor names of the published TrOCR
files, and what HuggingFace makes of two images.

    make_vision_golden.py DIR TOKENIZER     needs transformers, torch, Pillow; TOKENIZER: a folder with a byte-level BPE
                                            of fewer than 600 tokens (vocab.json, merges.txt)

A distilled encoder of another width than the decoder (enc_to_dec_proj), images that are no squares, sinusoidal positions,
a head tied to the embeddings. golden.json: for each image greedy and beam search, ids with the prompt, no two tokens twice; golden.safetensors:
pixel values, states of the encoder and logits of the greedy ids.
"""
import json, pathlib, shutil, sys

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import DeiTConfig, TrOCRConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel

HEIGHT, WIDTH, PATCH = 16, 24, 8
OLD_NAMES = [("encoder.layers.", "encoder.encoder.layer."), (".attention.q_proj", ".attention.attention.query"),
             (".attention.k_proj", ".attention.attention.key"), (".attention.v_proj", ".attention.attention.value"),
             (".attention.o_proj", ".attention.output.dense"), (".mlp.fc1", ".intermediate.dense"),
             (".mlp.fc2", ".output.dense")]


def old_name(name):
    if name.startswith("encoder.layers."):
        for new, old in OLD_NAMES:
            name = name.replace(new, old)
    return name


def pixel_values(file):
    image = Image.open(file).convert("RGB").resize((WIDTH, HEIGHT), Image.BICUBIC)
    scaled = (np.asarray(image).astype(np.float64) / 255).astype(np.float32)
    mean, std = np.array([0.4, 0.5, 0.6], np.float32), np.array([0.3, 0.25, 0.2], np.float32)
    return torch.from_numpy(((scaled - mean) / std).transpose(2, 0, 1).copy())[None]


def make_model(vocab_size):
    torch.manual_seed(5)
    encoder = DeiTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                         image_size=[HEIGHT, WIDTH], patch_size=PATCH)
    decoder = TrOCRConfig(vocab_size=vocab_size, d_model=24, decoder_layers=2, decoder_attention_heads=3, decoder_ffn_dim=32,
                          max_position_embeddings=40, use_learned_position_embeddings=False, scale_embedding=True,
                          is_decoder=True, add_cross_attention=True, tie_word_embeddings=True)
    config = VisionEncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict())
    config.pad_token_id, config.eos_token_id, config.decoder_start_token_id = 1, 2, 2
    model = VisionEncoderDecoderModel(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((torch.randn_like(p) * (0.4 if p.dim() > 1 else 0.2) + ("norm" in name and name.endswith("weight"))).half())
        positions = model.decoder.model.decoder.embed_positions
        positions.weights = positions.get_embedding(positions.weights.shape[0], positions.embedding_dim, positions.padding_idx)
    return model


def main():
    out, tokenizer = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(tokenizer / name, out / name)
    model = make_model(len(json.loads((out / "vocab.json").read_text())))
    images = out.parent / "images"
    shutil.copy(images / "rgba8.png", out / "image_0.png")
    shutil.copy(images / "rgb.jpg", out / "image_1.jpg")

    golden, tensors = [], {}
    for name in ("image_0.png", "image_1.jpg"):
        pixels = pixel_values(out / name)
        with torch.no_grad():
            greedy = model.generate(pixels, max_new_tokens=24, num_beams=1, do_sample=False, no_repeat_ngram_size=2, output_scores=True,
                                    return_dict_in_generate=True)
            top = torch.stack(greedy.scores)[:, 0].topk(2).values
            beams = model.generate(pixels, max_new_tokens=12, num_beams=3, do_sample=False, no_repeat_ngram_size=2)
            run = model(pixel_values=pixels, decoder_input_ids=greedy.sequences[:, :6])
        golden.append({"image": name, "greedy": greedy.sequences[0].tolist(), "beams": beams[0].tolist(),
                       "min_margin": float((top[:, 0] - top[:, 1]).min())})
        tensors |= {f"{name}.pixel_values": pixels[0], f"{name}.encoder": run.encoder_last_hidden_state[0],
                    f"{name}.logits": run.logits[0]}
    print([(c["image"], c["min_margin"], c["greedy"]) for c in golden])
    (out / "golden.json").write_text(json.dumps(golden) + "\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, out / "golden.safetensors")

    weights = {old_name(k): v.half().contiguous() for k, v in model.state_dict().items()}
    weights = {k: v for k, v in weights.items() if "output_projection" not in k and "pooler" not in k}
    save_file(weights, out / "model.safetensors")
    config = json.loads(model.config.to_json_string(use_diff=False))
    keep = {"encoder": DeiTConfig().to_dict().keys(), "decoder": TrOCRConfig().to_dict().keys()}
    drop = ("id2label", "label2id", "return_dict", "output_", "problem_type", "chunk_size", "transformers_version", "_name")
    slim = {side: {k: v for k, v in config[side].items() if k in keep[side] and v is not None and not k.startswith(drop)}
            for side in keep}
    (out / "config.json").write_text(json.dumps(
        {"architectures": ["VisionEncoderDecoderModel"], "model_type": "vision-encoder-decoder", "is_encoder_decoder": True,
         "torch_dtype": "float16", "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2} | slim, indent=1) + "\n")
    (out / "preprocessor_config.json").write_text(json.dumps(
        {"feature_extractor_type": "DeiTFeatureExtractor", "do_resize": True, "do_center_crop": False, "do_normalize": True,
         "resample": 3, "size": {"height": HEIGHT, "width": WIDTH}, "image_mean": [0.4, 0.5, 0.6],
         "image_std": [0.3, 0.25, 0.2]}, indent=1) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "RobertaTokenizer"}) + "\n")


if __name__ == "__main__":
    main()
