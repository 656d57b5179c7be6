#!/usr/bin/env python3
"""Requests with images, and those of classes that generate nothing: `tandem serve` beside HuggingFace, on a CPU.

    compare_requests.py [--tandem build/bin/tandem] --venv DIR [--dtypes float32,int8] [--batches 1,8] [--new-tokens 32]
                        [--tokens 128] [--rounds 3] [--check 8] [--threads 2] [--onnx-venv DIR] [--out FILE] MODEL…

Models: random ones of make_random_families.py (vit-gpt2, trocr-base, blip-base, nougat-small, pix2struct-base, florence2-base, donut-cord, udop-6,
t5gemma2-image-4, bart-classify, t5-encoder), or checkpoints of such classes. A batch is one HTTP request of Tandem's, and one call of HuggingFace's, which gets the
same PNG files or token ids. Its time is from the files to the token ids, labels or vectors: images are read, resized and
normalized in it. All images of a batch differ, also in shape, and Tandem's caches are off. The answers to --check requests are compared
before anything is timed; HuggingFace's image processors use pillow for them. If a random model's answers differ, say how far apart
HuggingFace's float32 and float64 are before you blame either: a rounding of 1e-7 can change all tokens of a model with sharp attention.
Engines take turns in each round. "Tandem by": the median of the ratios within rounds. Loading is not timed.

--venv: a virtual environment with torch, torchvision, transformers, pillow. compare_peers.py says how the rest of them is compared.
--onnx-venv: one with optimum-onnx[onnxruntime] as well, for ONNX Runtime beside them: images of VisionEncoderDecoder classes and
Pix2Struct, resized by pillow. The model is exported beside itself, to MODEL.onnx.
"""
import argparse, base64, json, pathlib, random, statistics, struct, subprocess, sys, tempfile, time, urllib.request, zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machine_limits
from support.tandem_server import TandemServer

SIZES = {"donut-swin": (816, 1056)}  # of images, by class of encoder; a page is upright
PICTURES = ((1, 1), (1.5, 0.75), (0.6, 1.1), (1.25, 1.25))  # widths and heights beside that, in turn
FLORENCE_IMAGE_TOKENS = 577
TEXT_TOKENS = {"florence2": 10, "t5gemma2": 10, "udop": 100}  # beside an image


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    p.add_argument("--tandem", default="build/bin/tandem")
    p.add_argument("--venv", type=pathlib.Path)
    p.add_argument("--dtypes", default="float32,int8")
    p.add_argument("--batches", default="1,8")
    p.add_argument("--new-tokens", type=int, default=32)
    p.add_argument("--tokens", type=int, default=128, help="of a text")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--check", type=int, default=8, help="requests whose answers are compared; 0: none")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("requests.md"))
    p.add_argument("--onnx-venv", type=pathlib.Path)
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--onnx", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


def task_of(config):
    name = config["architectures"][0]
    return "classify" if "Classification" in name else "embed" if "Encoder" in name and "Decoder" not in name else "generate"


def write_png(file, width, height, chance):
    """Bright stripes and dark blocks: no two images alike."""
    blocks = [[bytes(chance.randint(0, 255) for _ in range(3)) for _ in range(width // 24 + 1)] for _ in range(height // 24 + 1)]
    rows = b"".join(b"\0" + b"".join(blocks[y // 24][x // 24] for x in range(width)) for y in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def text_beside(config, chance):
    """The ids, and for UDOP the boxes of words in lines."""
    kind = config["model_type"]
    text = [chance.randint(4, 30000) for _ in range(TEXT_TOKENS.get(kind, 0))]
    if kind == "florence2":
        return {"ids": [config["image_token_id"]] * FLORENCE_IMAGE_TOKENS + text + [config["eos_token_id"]]}
    if kind == "t5gemma2":
        image = [config["image_token_index"]] * config["encoder"]["mm_tokens_per_image"]
        return {"ids": [config["encoder"]["text_config"]["bos_token_id"]] + image + text}
    if kind == "udop":
        boxes = [[0.1 * (i % 10), 0.1 * (i // 10), 0.1 * (i % 10) + 0.08, 0.1 * (i // 10) + 0.05] for i in range(len(text))]
        return {"ids": text + [config["eos_token_id"]], "bbox": boxes + [[1.0] * 4]}
    return {}


def make_requests(args, config, folder, count):
    """Each {"image": path, "ids": ids}, or one of the two."""
    chance = random.Random(args.seed)
    if task_of(config) != "generate":
        end = config["eos_token_id"]
        return [{"ids": [chance.randint(4, config["vocab_size"] - 2) for _ in range(args.tokens - 1)] + [end]} for _ in range(count)]
    width, height = SIZES.get(config.get("encoder", {}).get("model_type"), (640, 480))
    requests = []
    for i in range(count):
        requests.append({"image": str(folder / f"{i}.png")})
        across, down = PICTURES[i % len(PICTURES)]
        write_png(folder / f"{i}.png", int(width * across), int(height * down), chance)
        requests[-1].update(text_beside(config, chance))
    return requests


# --- engines -------------------------------------------------------------------------------------------------------


class Tandem:
    def __init__(self, args, model, dtype, folder):
        self.args, self.task = args, task_of(json.loads((model / "config.json").read_text()))
        flags = ["--no-enable-encoder-cache", "--no-enable-prefix-caching", "--num-speculative-tokens", 0]
        self.server = TandemServer(args.tandem, [model, "--dtype", dtype, "--threads", args.threads, *flags], folder)

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            sys.exit(f"compare_requests: {error.read().decode()}")

    def run(self, requests):
        """(seconds, the answers)."""
        start = time.perf_counter()
        if self.task == "classify":
            rows = self.post("/classify", {"input": [r["ids"] for r in requests]})["data"]
            answers = [r["probs"] for r in rows]
        elif self.task == "embed":
            answers = [r["embedding"] for r in self.post("/v1/embeddings", {"input": [r["ids"] for r in requests]})["data"]]
        else:
            prompts = [self.prompt(r) for r in requests]
            count = self.args.new_tokens
            body = {"prompt": prompts, "max_tokens": count, "min_tokens": count, "ignore_eos": True, "temperature": 0,
                    "return_token_ids": True}
            answers = [choice["token_ids"] for choice in self.post("/v1/completions", body)["choices"]]
        return time.perf_counter() - start, answers

    @staticmethod
    def prompt(request):
        url = "data:image/png;base64," + base64.b64encode(pathlib.Path(request["image"]).read_bytes()).decode()
        text = {"prompt_token_ids": request["ids"]} if "ids" in request else {"prompt": ""}
        if "bbox" in request:
            text["bbox"] = request["bbox"]
        return {**text, "multi_modal_data": {"image": url}}

    def close(self):
        self.server.close()


class Peer:
    def __init__(self, args, model, onnx=False):
        venv = args.onnx_venv if onnx else args.venv
        python = venv / "bin/python" if venv else sys.executable
        command = [python, __file__, "--worker", model, "--threads", args.threads, "--new-tokens", args.new_tokens]
        command += ["--onnx"] if onnx else []
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare_requests: the peer ended with status {self.process.wait()}")
        return json.loads(line)

    def run(self, requests, exact=False):
        """exact: with images as pillow resizes them, which Tandem's are; torchvision's, which are faster, differ a little."""
        self.process.stdin.write(json.dumps({"requests": requests, "exact": exact}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class HuggingFace:
    """In the process of --worker."""

    def __init__(self, args):
        import torch, transformers

        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        model = args.models[0]
        self.args, self.torch, self.config = args, torch, json.loads((model / "config.json").read_text())
        self.task = task_of(self.config)
        self.model = getattr(transformers, self.config["architectures"][0]).from_pretrained(model, dtype=torch.float32).eval()
        if self.task == "generate":
            load = transformers.AutoImageProcessor.from_pretrained
            self.processor, self.exact_processor = load(model), load(model, backend="pil")
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"

    def run(self, requests, exact=False):
        ids = self.torch.tensor([r["ids"] for r in requests]) if "ids" in requests[0] else None
        if self.task == "classify":
            return self.model(input_ids=ids).logits.softmax(-1).tolist()
        if self.task == "embed":
            vectors = self.model(input_ids=ids).last_hidden_state.mean(1)
            return (vectors / vectors.norm(dim=-1, keepdim=True)).tolist()
        from PIL import Image

        processor = self.exact_processor if exact else self.processor
        inputs = dict(processor(images=[Image.open(r["image"]).convert("RGB") for r in requests], return_tensors="pt"))
        if ids is not None:
            inputs.update(input_ids=ids, attention_mask=self.torch.ones_like(ids))
        if "bbox" in requests[0]:
            inputs.update(bbox=self.torch.tensor([r["bbox"] for r in requests]))
        inputs.pop("num_crops", None)
        count = self.args.new_tokens
        out = self.model.generate(**inputs, min_new_tokens=count, max_new_tokens=count, num_beams=1, do_sample=False)
        return out[:, -count:].tolist()


class OnnxRuntime(HuggingFace):
    def __init__(self, args):
        import onnxruntime, torch, transformers
        from optimum import onnxruntime as optimum

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        model, options = args.models[0], onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        self.args, self.torch, self.task = args, torch, "generate"
        kind = json.loads((model / "config.json").read_text())["model_type"]
        load = optimum.ORTModelForPix2Struct if kind == "pix2struct" else optimum.ORTModelForVision2Seq
        folder = model.with_name(model.name + ".onnx")
        if not (folder / "config.json").exists():
            load.from_pretrained(model, export=True).save_pretrained(folder)
        self.model = load.from_pretrained(folder, session_options=options)
        self.processor = self.exact_processor = transformers.AutoImageProcessor.from_pretrained(model, use_fast=False)
        self.version = f"onnxruntime {onnxruntime.__version__}"


def work(args):
    import os

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not disturb the answers
    engine = OnnxRuntime(args) if args.onnx else HuggingFace(args)
    print(json.dumps(engine.version), file=answers, flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        start = time.perf_counter()
        result = engine.run(**work)
        print(json.dumps([time.perf_counter() - start, result]), file=answers, flush=True)


# --- the comparison ------------------------------------------------------------------------------------------------


def agreement(task, got, want):
    if task == "generate":
        return f"{sum(a == b for a, b in zip(got, want))} of {len(want)} alike, {len({t for row in want for t in row})} tokens"
    return f"differ by at most {max(abs(a - b) for x, y in zip(got, want) for a, b in zip(x, y)):.1e}"


def peers_of(args):
    return ["hf", "onnx"] if args.onnx_venv else ["hf"]


def compare(args, model, folder):
    """Lines of the table."""
    config = json.loads((model / "config.json").read_text())
    batches = [int(b) for b in args.batches.split(",")]
    requests = make_requests(args, config, folder, max([args.check, *batches]))
    engines = {"hf": Peer(args, model), **({"onnx": Peer(args, model, onnx=True)} if args.onnx_venv else {}),
               **{d: Tandem(args, model, d, folder) for d in args.dtypes.split(",")}}
    lines = []
    try:
        peer = engines["hf"]
        peer.run(requests[:1])  # warms up
        exact = peer.run(requests[:args.check], exact=True)[1] if args.check else []
        notes = {}
        for name, engine in engines.items():
            if name != "hf":
                answers = engine.run(requests[:args.check or 1])[1]
                notes[name] = agreement(task_of(config), answers, exact) if args.check else "not compared"
        print(f"{model.name}: {notes}", flush=True)
        for batch in batches:
            seconds = {name: [] for name in engines}
            for _ in range(args.rounds):
                for name, engine in engines.items():
                    time.sleep(0.3)  # spinning threads go to sleep
                    seconds[name].append(engine.run(requests[:batch])[0])
            cells = [f"{statistics.median(seconds[peer]):.3g}" for peer in peers_of(args)]
            for name in args.dtypes.split(","):
                cells.append(f"{statistics.median(seconds[name]):.3g}")
                cells += [f"{statistics.median(h / t for h, t in zip(seconds[peer], seconds[name])):.2f}" for peer in peers_of(args)]
            lines.append(f"| {model.name.removeprefix('random-')} | {batch} | " + " | ".join(cells) +
                         f" | {notes.get('float32', '')} |")
            print(lines[-1], flush=True)
    finally:
        for engine in engines.values():
            engine.close()
    return lines, ", ".join(engines[peer].version for peer in peers_of(args))


def main():
    args = parse()
    if args.worker:
        return work(args)
    names = {"hf": "HuggingFace", "onnx": "ONNX Runtime"}
    heads = [f"{names[peer]}, s" for peer in peers_of(args)]
    for dtype in args.dtypes.split(","):
        heads += [f"Tandem {dtype}, s", *(f"Tandem {dtype} by{f' ({names[peer]})' if args.onnx_venv else ''}" for peer in peers_of(args))]
    lines = [f"| model | batch | {' | '.join(heads)} | answers in float32 |"]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            rows, version = compare(args, model.resolve(), pathlib.Path(folder))
        lines += rows
    lines += ["", f"{machine_limits.cpu_name()}, {args.threads} threads, {args.rounds} rounds, {version}."]
    args.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
