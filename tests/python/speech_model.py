"""A Whisper of random weights with the tokenizer of tests/data's, and sounds. What it says is noise, but always the same."""
import array
import io
import json
import math
import random
import shutil
import struct
import wave

from conftest import GOLDENS

WIDTH, INNER, SOURCE, TARGET, BINS, TIMES = 16, 32, 1500, 64, 80, 1501


def _weights(vocab):
    draw = random.Random(7)
    weights = {}

    def add(name, shape, scale, mean=0.0):
        count = math.prod(shape)
        weights[name] = (shape, array.array("f", (draw.gauss(mean, scale) for _ in range(count))).tobytes())

    def linear(name, shape, bias=True):
        add(name + ".weight", shape, 1.5 / math.sqrt(math.prod(shape[1:])))
        if bias:
            add(name + ".bias", shape[:1], 0.1)

    def norm(name):
        add(name + ".weight", [WIDTH], 0.1, 1.0)
        add(name + ".bias", [WIDTH], 0.1)

    linear("model.encoder.conv1", [WIDTH, BINS, 3])
    linear("model.encoder.conv2", [WIDTH, WIDTH, 3])
    add("model.encoder.embed_positions.weight", [SOURCE, WIDTH], 0.5)
    add("model.decoder.embed_positions.weight", [TARGET, WIDTH], 1.0)
    add("model.decoder.embed_tokens.weight", [vocab, WIDTH], 0.7)
    for side in ("encoder", "decoder"):
        layer = "model.%s.layers.0." % side
        for attention in ["self_attn"] + ["encoder_attn"] * (side == "decoder"):
            for part in ("q", "k", "v", "out"):
                linear("%s%s.%s_proj" % (layer, attention, part), [WIDTH, WIDTH], part != "k")
            norm(layer + attention + "_layer_norm")
        linear(layer + "fc1", [INNER, WIDTH])
        linear(layer + "fc2", [WIDTH, INNER])
        norm(layer + "final_layer_norm")
        norm("model.%s.layer_norm" % side)
    return weights


def make_whisper(folder, english=False):
    """Writes the checkpoint. english: one that knows nothing else, as openai/whisper-tiny.en. Returns its folder."""
    folder.mkdir()
    tokens = GOLDENS / "whisper-tiny-rand"
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json"):
        shutil.copy(tokens / name, folder / name)
    ids = json.loads((tokens / "added_tokens.json").read_text())
    start, end, no_times = ids["<|startoftranscript|>"], ids["<|startoftranscript|>"] - 1, ids["<|notimestamps|>"]
    vocab = no_times + 1 + TIMES
    header, data = {}, b""
    for name, (shape, values) in _weights(vocab).items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    common = {"decoder_start_token_id": start, "bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    config = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": vocab,
              "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
              "decoder_attention_heads": 2, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "num_mel_bins": BINS,
              "max_source_positions": SOURCE, "max_target_positions": TARGET, "activation_function": "gelu",
              "tie_word_embeddings": True, **common}
    generation = {**common, "is_multilingual": True, "no_timestamps_token_id": no_times, "max_length": 40,
                  "lang_to_id": {name: i for name, i in ids.items() if start < i < ids["<|translate|>"]},
                  "task_to_id": {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]},
                  "alignment_heads": [[0, 1], [0, 0]], "prev_sot_token_id": ids["<|startofprev|>"], "max_initial_timestamp_index": 50,
                  "begin_suppress_tokens": [220, end],
                  "suppress_tokens": [start] + list(range(ids["<|translate|>"], no_times))}
    if english:
        generation.update(is_multilingual=False, forced_decoder_ids=[[1, no_times]])
        for name in ("lang_to_id", "task_to_id", "alignment_heads"):
            del generation[name]
    sound = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": BINS, "sampling_rate": 16000,
             "hop_length": 160, "n_fft": 400, "chunk_length": 30, "n_samples": 480000, "nb_max_frames": 3000,
             "padding_value": 0.0}
    for name, value in (("config", config), ("generation_config", generation), ("preprocessor_config", sound)):
        (folder / (name + ".json")).write_text(json.dumps(value))
    return folder


def wav(seconds, rate=16000, pitch=220.0):
    """A rising tone, as a WAV file of 16 bits."""
    count = int(seconds * rate)
    samples = array.array("h", (int(9000 * math.sin(2 * math.pi * pitch * (1 + i / count) * i / rate)) for i in range(count)))
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(samples.tobytes())
    return file.getvalue()


def _crc(data, bits, polynomial):
    crc, top = 0, 1 << (bits - 1)
    for byte in data:
        crc ^= byte << (bits - 8)
        for _ in range(8):
            crc = (crc << 1) ^ polynomial if crc & top else crc << 1
        crc &= (1 << bits) - 1
    return crc.to_bytes(bits // 8, "big")


def silent_flac(seconds, rate=16000, claim=None):
    """Blocks of 65535 samples that are all 0, 16 bytes each: an hour in 14 kB. claim: samples that it says it has."""
    block, count = 65535, int(seconds * rate)
    numbers = (rate << 44) | (15 << 36) | (claim or count)
    about = struct.pack(">HH", block, block) + bytes(6) + numbers.to_bytes(8, "big") + bytes(16)
    file = [b"fLaC\x80\x00\x00\x22", about]
    for number, at in enumerate(range(0, count, block)):
        samples = min(block, count - at)
        head = b"\xff\xf8\x70\x00" + chr(number).encode() + struct.pack(">H", samples - 1)
        frame = head + _crc(head, 8, 0x07) + b"\x00\x00\x00"
        file.append(frame + _crc(frame, 16, 0x8005))
    return b"".join(file)
