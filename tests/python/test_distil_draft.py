"""scripts/distil_draft: what it makes is a draft model that shares the encoder. The training wants PyTorch and transformers."""
import json
import os
import random
import re
import subprocess
import sys
import types

import pytest

from conftest import GOLDENS, MODEL, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from distil import data, layers  # noqa: E402

PROGRAM = ROOT / "scripts" / "distil_draft"
TANDEM = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))


def texts_of_demo_model():
    cases = json.loads((MODEL / "golden.json").read_text())["cases"]
    return list(dict.fromkeys(case["text"] for case in cases))


def run(*arguments):
    return subprocess.run([sys.executable, str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_layers():
    assert layers.chosen_layers("1", 3) == [0]
    assert layers.chosen_layers("2", 6) == [0, 5]
    assert layers.chosen_layers("3", 12) == [0, 6, 11]
    assert layers.chosen_layers("6", 6) == [0, 1, 2, 3, 4, 5]
    assert layers.chosen_layers("2,0", 3) == [2, 0]
    for wrong in ("0", "4", "0,3", "1,1", "-1,0", "one"):
        with pytest.raises(SystemExit, match="--layers"):
            layers.chosen_layers(wrong, 3)


def test_tokens_per_step():
    assert data.tokens_per_step([[True] * 9], 2) == 3
    assert data.tokens_per_step([[False] * 9], 8) == 1
    assert data.tokens_per_step([[True, False, True, True, False, True]], 8) == 2  # of 6 tokens: 2, 3 and the last
    assert data.tokens_per_step([[True] * 4, [False]], 1) == 5 / 3


def test_batches_have_each_text_once_and_are_bounded():
    order = random.Random(7)
    rows = [{"source": [1] * order.randint(1, 400), "prompt": [2, 0], "output": [3] * order.randint(1, 40)} for _ in range(500)]
    for blurred in (None, order):
        batches = data.batches_of(rows, range(20, 500), 256, blurred)
        assert sorted(i for batch in batches for i in batch) == list(range(20, 500))
        for batch in batches:
            assert len(batch) * max(2 + len(rows[i]["output"]) for i in batch) <= 256
            assert len(batch) * max(len(rows[i]["source"]) for i in batch) <= 8 * 256
    assert data.batches_of(rows, [], 256) == []


def test_names_of_layers():
    assert layers.layer_of("model.decoder.layers.11.fc1.weight") == ("model.decoder.layers.", 11, "fc1.weight")
    assert layers.layer_of("decoder.block.0.layer.1.EncDecAttention.q.weight") == (
        "decoder.block.", 0, "layer.1.EncDecAttention.q.weight")
    assert layers.layer_of("model.encoder.layers.0.fc1.weight") is None
    assert layers.layer_of("model.decoder.embed_positions.weight") is None


def test_what_the_teacher_says(tmp_path, capsys):
    sources = tmp_path / "texts.txt"
    texts = texts_of_demo_model()[:4]
    sources.write_text("\n".join([*texts, "", texts[0]]) + "\n")
    assert data.read_sources(sources) == texts
    args = types.SimpleNamespace(teacher=str(MODEL), params="{}", tandem=TANDEM, threads=1)
    data.run_teacher(args, [*texts, " "], tmp_path / "outputs")
    assert "1 texts were refused" in capsys.readouterr().err
    rows = data.read_outputs(tmp_path / "outputs")
    assert [file.name for file in tmp_path.glob("outputs*")] == ["outputs"]
    cases = json.loads((MODEL / "golden.json").read_text())["cases"]
    greedy = {case["text"]: case for case in cases if case["kind"] == "greedy"}
    for text, row in zip(texts, rows, strict=True):
        assert row["source"] == greedy[text]["encoder_ids"]
        assert row["prompt"] == [2, 0] and row["output"][-1] == 2


def test_mistakes_are_named(tmp_path):
    sources = tmp_path / "texts.txt"
    sources.write_text("one text\n")
    given = ["--teacher", MODEL, "--sources", sources, "--tandem", TANDEM]
    same = run(*given, "--out", MODEL)
    assert same.returncode == 1 and "teacher's folder" in same.stderr
    few = run(*given, "--out", tmp_path / "out", "--held-out", "5")
    assert few.returncode == 1 and "--held-out 5" in few.stderr


def distilled(tmp_path, teacher, texts, *more):
    """Makes one, and asserts that tandem takes it, shares the encoder, and says with it what it says without."""
    for package in ("torch", "transformers", "safetensors"):
        pytest.importorskip(package)
    sources, out = tmp_path / "texts.txt", tmp_path / "draft"
    sources.write_text("\n".join(texts) + "\n")
    made = run("--teacher", teacher, "--sources", sources, "--out", out, "--tandem", TANDEM, "--threads", "1", *more)
    assert made.returncode == 0, made.stderr
    said = []
    for flags in ([], ["--draft-model", out, "--num-speculative-tokens", "4"]):
        command = [TANDEM, "generate", "--model", teacher, "--lines", "--input", sources, "--dtype", "float32", *flags]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        said.append(result.stdout)
    assert said[0] == said[1]
    assert "which shares the encoder" in result.stderr
    return made.stdout


# What is measured is the saved draft: in bfloat16 weights must not stay in autocast's cache as they began.
@pytest.mark.parametrize("types", [[], ["--bf16"]])
def test_the_demo_models_learns(tmp_path, types):
    said = distilled(tmp_path, MODEL, texts_of_demo_model(), "--held-out", "8", "--epochs", "20", "--batch", "128", *types)
    shares = [float(share) for share in re.findall(r"trained: ([\d.]+)% of", said)]
    assert len(shares) == 2 and shares[1] > shares[0] + 10, said
    config = json.loads((tmp_path / "draft" / "config.json").read_text())
    assert config["decoder_layers"] == 1 and config["encoder_layers"] == 3


@pytest.mark.parametrize("family, layers", [("t5-tiny", "1"), ("flan-t5-untied", "1"), ("marian-tiny", "1"), ("mbart50-tiny", "1"),
                                            ("plbart-tiny", "0,1"), ("blenderbot-tiny", "2")])
def test_families(tmp_path, family, layers):
    params = {"mbart50-tiny": ["--params", '{"src_lang": "en_XX", "tgt_lang": "de_DE"}']}.get(family, [])
    distilled(tmp_path, GOLDENS / family, ["one text", "another text of words", "and a third"], "--layers", layers,
              "--held-out", "1", "--epochs", "2", *params)
