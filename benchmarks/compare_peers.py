#!/usr/bin/env python3
"""Tandem beside CTranslate2, OpenVINO and HuggingFace on the same requests, on a CPU.

    compare_peers.py --model DIR [--venv DIR [--install]] [--bench build/bin/bench_model]
                     [--engines tandem,ct2,openvino,hf] [--batches 1,8,32] [--source-tokens 256] [--new-tokens 64]
                     [--threads 2] [--rounds 5] [--out results]

The work: requests of --source-tokens random ids each, decoded greedily from Tandem's default decoder prompt
[decoder_start, bos] by exactly --new-tokens tokens, in batches of the sizes given. Every engine runs in a process of its
own with --threads threads. A round runs all of them one after the other, each --repeat times, the fastest counts; so
whatever else the machine does hits all alike. Before anything is timed, each engine's tokens are compared with
HuggingFace's. Loading is not timed. The results go to OUT.json and, as a Markdown table, to OUT.md.

--install makes --venv and installs the peers there with pip. Without --venv this interpreter must have them.
Engines: tandem, ct2, ct2-int8, openvino, hf (and tandem-bf16: reported, never compared token by token).
"""
import argparse, datetime, json, os, pathlib, platform, random, statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ["ctranslate2", "transformers", "torch", "numpy", "safetensors", "optimum[openvino]"]
EXACT = {"tandem", "ct2", "openvino"}  # fp32: must agree with HuggingFace
TIE = 1e-3  # HuggingFace's own lead of the best logit, below which fp32 engines may differ


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--venv", type=pathlib.Path)
    p.add_argument("--install", action="store_true")
    p.add_argument("--bench", type=pathlib.Path, default=HERE.parent / "build/bin/bench_model")
    p.add_argument("--engines", default="tandem,ct2,openvino,hf")
    p.add_argument("--batches", default="1,8,32")
    p.add_argument("--source-tokens", type=int, default=256)
    p.add_argument("--new-tokens", type=int, default=64)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--repeat", type=int, default=2, help="runs of an engine in a round; the fastest counts")
    p.add_argument("--pause", type=float, default=0.5, help="seconds between two engines, for spinning threads to sleep")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cache", type=pathlib.Path, help="converted models; default: MODEL.converted")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("peers"))
    p.add_argument("--worker", help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    args.model = args.model.resolve()
    args.cache = args.cache or args.model.with_name(args.model.name + ".converted")
    args.engines = [e for e in args.engines.split(",") if e]
    args.batches = [int(b) for b in args.batches.split(",")]
    return args


# --- the peers, each in a process of its own -----------------------------------------------------------------------


class HuggingFace:
    def __init__(self, args):
        import torch, transformers

        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        self.torch = torch
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(args.model, dtype=torch.float32).eval()

    def generate(self, requests, new_tokens):
        ids = self.torch.tensor(requests)
        config = self.model.config
        start = self.torch.tensor([[config.decoder_start_token_id, config.bos_token_id]]).repeat(len(requests), 1)
        out = self.model.generate(
            input_ids=ids, attention_mask=self.torch.ones_like(ids), decoder_input_ids=start, num_beams=1,
            do_sample=False, min_new_tokens=new_tokens, max_new_tokens=new_tokens)
        return out[:, 2:].tolist()

    def leads(self, requests, tokens):
        """How far the best logit is ahead of the second, for every generated token (EOS left out)."""
        config = self.model.config
        start, eos = [config.decoder_start_token_id, config.bos_token_id], config.eos_token_id
        result = []
        for source, target in zip(requests, tokens):
            logits = self.model(input_ids=self.torch.tensor([source]),
                                decoder_input_ids=self.torch.tensor([start + target[:-1]])).logits[0, 1:]
            logits[:, eos] = float("-inf")
            top = logits.topk(2).values
            result.append((top[:, 0] - top[:, 1]).tolist())
        return result


class OpenVino(HuggingFace):
    def __init__(self, args):
        import importlib.metadata, openvino, torch
        from optimum.intel import OVModelForSeq2SeqLM

        torch.set_num_threads(1)
        self.torch = torch
        self.version = f"openvino {openvino.__version__.split('-')[0]}, optimum-intel {importlib.metadata.version('optimum-intel')}"
        # f32: on a CPU with bf16 instructions the default would compute in bf16.
        config = {"INFERENCE_NUM_THREADS": str(args.threads), "INFERENCE_PRECISION_HINT": "f32",
                  "PERFORMANCE_HINT": "LATENCY"}
        folder = args.cache / "openvino"
        if not (folder / "config.json").exists():
            OVModelForSeq2SeqLM.from_pretrained(args.model, export=True, compile=False).save_pretrained(folder)
        self.model = OVModelForSeq2SeqLM.from_pretrained(folder, ov_config=config)


class CTranslate2:
    def __init__(self, args, compute_type="float32"):
        import ctranslate2

        self.version = f"ctranslate2 {ctranslate2.__version__}"
        folder = args.cache / "ctranslate2"
        if not (folder / "model.bin").exists():
            ctranslate2.converters.TransformersConverter(str(args.model)).convert(str(folder), force=True)
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=args.threads)
        ids = json.loads((args.model / "vocab.json").read_text(encoding="utf-8"))
        self.ids = ids
        self.tokens = {i: token for token, i in ids.items()}

    def generate(self, requests, new_tokens):
        prefix = [self.tokens[r[0]] for r in requests]  # BOS, which counts as decoded and is part of the hypothesis
        results = self.translator.translate_batch(
            [[self.tokens[i] for i in r] for r in requests], target_prefix=[[p] for p in prefix], beam_size=1,
            min_decoding_length=new_tokens + 1, max_decoding_length=new_tokens + 1)
        return [[self.ids[token] for token in r.hypotheses[0][1:]] for r in results]


MAKERS = {
    "hf": HuggingFace,
    "openvino": OpenVino,
    "ct2": CTranslate2,
    "ct2-int8": lambda args: CTranslate2(args, "int8"),
}


def worker(args):
    """Reads {"requests", "new_tokens"} lines, answers with {"seconds", "token_ids", "peak_rss_mb"} lines."""
    import resource

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not disturb the answers
    engine = MAKERS[args.worker](args)
    print(json.dumps({"version": engine.version}), file=answers, flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        answer = {}
        if "leads_of" in work:
            answer["leads"] = engine.leads(work["requests"], work["leads_of"])
        else:
            start = time.perf_counter()
            answer["token_ids"] = engine.generate(work["requests"], work["new_tokens"])
            answer["seconds"] = time.perf_counter() - start
        answer["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), file=answers, flush=True)


# --- what the comparison talks to ----------------------------------------------------------------------------------


class Peer:
    def __init__(self, name, args):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), TOKENIZERS_PARALLELISM="false",
                           HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
        command = [python_of(args), __file__, "--worker", name, "--model", args.model, "--cache", args.cache,
                   "--threads", args.threads]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.version = self.answer()["version"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare_peers: {self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, **work):
        self.process.stdin.write(json.dumps(work) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def run(self, requests, new_tokens, repeat=1):
        runs = [self.ask(requests=requests, new_tokens=new_tokens) for _ in range(repeat)]
        return min(runs, key=lambda r: r["seconds"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Tandem:
    """bench_model: one process for each measurement; it prints one JSON object and leaves loading out of `seconds`."""

    def __init__(self, args, dtype="float32"):
        if not args.bench.exists():
            sys.exit(f"compare_peers: {args.bench} is not built (cmake --build build --target bench_model)")
        self.args, self.dtype, self.version = args, dtype, "tandem"

    def run(self, requests, new_tokens, repeat=1):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps({"encoder_ids": r}) + "\n" for r in requests)
            file.flush()
            command = [self.args.bench, "--model", self.args.model, "--batch", len(requests), "--source-tokens",
                       len(requests[0]), "--new-tokens", new_tokens, "--dtype", self.dtype, "--threads",
                       self.args.threads, "--repeat", repeat, "--requests", file.name, "--json"]
            done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"compare_peers: bench_model ended with status {done.returncode}")
        return json.loads(done.stdout)

    def close(self):
        pass


def python_of(args):
    return args.venv / "bin/python" if args.venv else sys.executable


def install(args):
    if not args.venv:
        sys.exit("compare_peers: --install needs --venv DIR")
    if not (args.venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(args.venv)], check=True)
    subprocess.run([str(python_of(args)), "-m", "pip", "install", "--quiet", *PEERS], check=True)


def start(name, args):
    if name.startswith("tandem"):
        return Tandem(args, "bfloat16" if name == "tandem-bf16" else "float32")
    if name not in MAKERS:
        sys.exit(f"compare_peers: no engine {name}: tandem, tandem-bf16, {', '.join(MAKERS)}")
    return Peer(name, args)


def make_requests(args, count):
    config = json.loads((args.model / "config.json").read_text())
    chance = random.Random(args.seed)
    low, high = 4, config["vocab_size"] - 2  # no special token inside
    body = args.source_tokens - 2
    return [[config["bos_token_id"], *(chance.randint(low, high) for _ in range(body)), config["eos_token_id"]]
            for _ in range(count)]


def compare_tokens(name, got, want, leads):
    """Counts requests that agree, that part at a tie of HuggingFace's, and that differ. Exits on a difference in fp32."""
    same = ties = wrong = 0
    first = ""
    for i, (g, w) in enumerate(zip(got, want)):
        if g == w:
            same += 1
            continue
        at = next((k for k, (a, b) in enumerate(zip(g, w)) if a != b), min(len(g), len(w)))
        if len(g) == len(w) and leads[i][at] < TIE:
            ties += 1
        else:
            wrong += 1
            lead = leads[i][at] if at < len(leads[i]) else float("nan")
            first = first or f"request {i}, position {at}: {g[at:at+4]} instead of {w[at:at+4]} (HuggingFace's lead {lead:.4g})"
    if len(got) != len(want):
        wrong, first = len(want), f"{len(got)} answers to {len(want)} requests"
    print(f"  {name}: {same} of {len(want)} requests agree with HuggingFace" +
          (f", {ties} part at a tie" if ties else "") + (f", {wrong} differ: {first}" if wrong else ""))
    if wrong and name in EXACT:
        sys.exit(f"compare_peers: {name} computes something else; timing it would mean nothing")
    return {"same": same, "ties": ties, "different": wrong}


def measure(args, engines, batch, requests):
    """{engine: [seconds of each round]} and the time to the first token, which peers tell by generating one token."""
    rows = {name: {"seconds": [], "ttft_ms": [], "peak_rss_mb": 0.0} for name in engines}
    names = list(engines)
    for turn in range(args.rounds + 1):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            engine, row = engines[name], rows[name]
            time.sleep(args.pause)
            done = engine.run(requests[:batch], args.new_tokens, args.repeat)
            row["peak_rss_mb"] = max(row["peak_rss_mb"], done["peak_rss_mb"])
            if turn == 0:  # warms up caches and primitive caches
                continue
            row["seconds"].append(done["seconds"])
            row["ttft_ms"].append(done["ttft_ms"] if "ttft_ms" in done
                                  else 1000 * engine.run(requests[:batch], 1, args.repeat)["seconds"])
    return rows


def summarise(args, batch, rows):
    results = []
    for name, row in rows.items():
        seconds = statistics.median(row["seconds"])
        results.append({
            "engine": name, "batch": batch, "seconds": seconds, "best_seconds": min(row["seconds"]),
            "rounds": row["seconds"], "tokens_per_second": batch * args.new_tokens / seconds,
            "ttft_ms": statistics.median(row["ttft_ms"]), "peak_rss_mb": row["peak_rss_mb"]})
    for r in results:
        # Round by round, so that what slowed a round down cancels out.
        if "tandem" in rows:
            r["tandem_speed_ratio"] = statistics.median(
                theirs / ours for theirs, ours in zip(r["rounds"], rows["tandem"]["seconds"]))
    return results


def cpu_name():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def markdown(report):
    lines = [f"{report['model']}: {report['source_tokens']} source tokens, {report['new_tokens']} new tokens, greedy, "
             f"{report['threads']} threads, {report['cpu']}, {report['date']}. Median of {report['rounds']} interleaved rounds.",
             "", "| batch | engine | s | tokens/s | Tandem is faster by | first token, ms | peak memory, MB |",
             "|---|---|---|---|---|---|---|"]
    for r in report["results"]:
        ratio = f"{r['tandem_speed_ratio']:.2f}" if "tandem_speed_ratio" in r else ""
        lines.append(f"| {r['batch']} | {r['engine']} | {r['seconds']:.3f} | {r['tokens_per_second']:.0f} | {ratio} | "
                     f"{r['ttft_ms']:.0f} | {r['peak_rss_mb']:.0f} |")
    lines += ["", "Versions: " + "; ".join(sorted(set(report["versions"].values()))) + "."]
    return "\n".join(lines) + "\n"


def main():
    args = parse(sys.argv[1:])
    if args.worker:
        return worker(args)
    if args.install:
        install(args)
    requests = make_requests(args, max(args.batches))
    engines = {name: start(name, args) for name in args.engines}
    judge = engines["hf"] if "hf" in engines else start("hf", args)

    print("tokens:")
    want = judge.run(requests, args.new_tokens)["token_ids"]
    leads = judge.ask(requests=requests, leads_of=want)["leads"]
    print(f"  hf: {len({t for row in want for t in row})} different tokens, smallest lead {min(map(min, leads)):.4g}")
    agreement = {name: compare_tokens(name, engine.run(requests, args.new_tokens)["token_ids"], want, leads)
                 for name, engine in engines.items() if name != "hf"}

    report = {"model": args.model.name, "source_tokens": args.source_tokens, "new_tokens": args.new_tokens,
              "threads": args.threads, "rounds": args.rounds, "repeat": args.repeat, "seed": args.seed, "cpu": cpu_name(),
              "date": datetime.date.today().isoformat(), "versions": {n: e.version for n, e in engines.items()},
              "agreement": agreement, "results": []}
    for batch in args.batches:
        print(f"batch {batch}: {args.rounds} rounds", flush=True)
        report["results"] += summarise(args, batch, measure(args, engines, batch, requests))
        args.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    for engine in {*engines.values(), judge}:
        engine.close()
    args.out.with_suffix(".md").write_text(markdown(report))
    print("\n" + markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
