#!/usr/bin/env python3
"""Tandem beside CTranslate2, OpenVINO and HuggingFace on the same requests, on a CPU.

    compare_peers.py --model DIR [--venv DIR [--install]] [--bench build/bin/bench_model]
                     [--engines tandem,ct2,openvino,hf] [--batches 1,8,32] [--source-tokens 256] [--new-tokens 64]
                     [--beams 1] [--mixed N] [--threads 2] [--rounds 5] [--out results]

The model: of build/bin/make_random_bart or make_random_families.py, or any of these families.
The work: requests of --source-tokens random ids each, decoded from Tandem's default decoder prompt (of BART
[decoder_start, bos], of others [decoder_start]) by exactly --new-tokens tokens, greedily or with --beams beams, in batches of the sizes given. Every engine runs in a
process of its own with --threads threads. A round runs all of them one after the other, each --repeat times, the
fastest counts; so whatever else the machine does hits all alike. Before anything is timed, each engine's tokens (of
the first --compare requests) are compared with HuggingFace's. Loading is not timed. The results go to OUT.json, as
a Markdown table to OUT.md, and as a picture, with the machine's limit in it, to OUT.svg.

--mixed N: N requests that come at once, of 32 to 512 source tokens and 8 to 128 new ones, most of them short, --batches
at a time. Tandem batches continuously. CTranslate2 and HuggingFace get them sorted by length in batches, as
CTranslate2's max_batch_size does; CTranslate2 drops what is done out of a running batch, HuggingFace goes on to the
longest. A request's latency is the time until it, or its batch, is done.

A model of sound (Whisper's shapes): a request is a window of random frames, 30 s of sound if it were any, the decoder
prompt says "English, transcribe, no times". The peers are HuggingFace and faster-whisper, whose CTranslate2 model is
given the frames as Tandem is: what makes them of sound is not timed. RTFx is how much sound is done in a second.

Beside each row stands what the machine multiplied at that time: the rate of a matrix product of PyTorch's in bf16; and,
where build/bin/bench_probes is built, how much of the machine's limit in its type a row of Tandem's is
(machine_limits.py says what that counts).

--install makes --venv and installs the peers there with pip. Without --venv this interpreter must have them.
Engines: tandem, ct2, openvino, onnx (ONNX Runtime), hf in float32; tandem-bf16, tandem-int8, tandem-int4, tandem-int8-kv8 (keys
and values in int8 as well), tandem-bf16-kv8, ct2-int8, ct2-bf16, hf-bf16, openvino-bf16, openvino-int8 (its weights; it computes
in bf16): their agreement is reported only. Of sound: tandem…, hf, hf-bf16, faster-whisper (float32), faster-whisper-int8.
--install leaves onnx out: it needs optimum-onnx[onnxruntime], which wants an older transformers.
"""
import argparse, datetime, json, os, pathlib, random, statistics, subprocess, sys, tempfile, time

import compare_types, machine_limits

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ["ctranslate2", "faster-whisper", "transformers", "torch", "numpy", "safetensors", "optimum[openvino]"]
OURS = {"tandem": "float32", "tandem-bf16": "bfloat16", "tandem-int8": "int8", "tandem-int4": "int4",
        "tandem-bf16-kv8": "bfloat16/int8", "tandem-int8-kv8": "int8/int8"}  # --dtype/--kv-cache-dtype
NAMES = ["ct2", "ct2-int8", "ct2-bf16", "hf", "hf-bf16", "openvino", "openvino-bf16", "openvino-int8",
         "faster-whisper", "faster-whisper-int8", "onnx"]
EXACT = {"tandem", "ct2", "openvino", "onnx", "faster-whisper"}  # fp32: must agree with HuggingFace; with beams Tandem alone
WINDOW_FRAMES, WINDOW_SECONDS, SPEECH_PROMPT = 3000, 30, [50258, 50259, 50359, 50363]
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
    p.add_argument("--beams", type=int, default=1)
    p.add_argument("--mixed", type=int, default=0, metavar="N", help="N requests of mixed lengths instead")
    p.add_argument("--compare", type=int, default=32, metavar="N", help="requests whose tokens are compared with HuggingFace's; 0: none")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--repeat", type=int, default=2, help="runs of an engine in a round; the fastest counts")
    p.add_argument("--warm-up", type=int, default=1, help="rounds that do not count")
    p.add_argument("--pause", type=float, default=0.5, help="seconds between two engines, for spinning threads to sleep")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cache", type=pathlib.Path, help="converted models; default: MODEL.converted")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("peers"))
    args = p.parse_args(argv)
    args.model = args.model.resolve()
    args.cache = args.cache or args.model.with_name(args.model.name + ".converted")
    args.engines = [e for e in args.engines.split(",") if e]
    args.batches = [int(b) for b in args.batches.split(",")]
    args.config = json.loads((args.model / "config.json").read_text())
    args.bins = args.config.get("num_mel_bins") if args.config["model_type"] == "whisper" else None
    args.windows = args.cache / "windows.f32"
    if args.compare < 0:
        p.error("--compare: 0 or more requests")
    if args.bins and (args.mixed or args.beams > 1):
        p.error("of sound: greedily, windows of one length")
    if args.mixed and args.beams > 1:
        p.error("--mixed is greedy: CTranslate2 cannot end its beams at lengths of their own")
    return args


# --- what the comparison talks to ----------------------------------------------------------------------------------


class Peer:
    def __init__(self, name, args):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), TOKENIZERS_PARALLELISM="false",
                           HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
        command = [python_of(args), HERE / "peer_worker.py", name, "--model", args.model, "--cache", args.cache,
                   "--threads", args.threads, "--beams", args.beams, *speech_flags(args)]
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

    def run(self, requests, new_tokens, batch, repeat=1):
        runs = [self.ask(requests=requests, new_tokens=new_tokens, batch=batch) for _ in range(repeat)]
        return min(runs, key=lambda r: r["seconds"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Tandem:
    """bench_model: one process for each measurement; it prints one JSON object and leaves loading out of `seconds`."""

    def __init__(self, args, dtype="float32"):
        if not args.bench.exists():
            sys.exit(f"compare_peers: {args.bench} is not built (cmake --build build --target bench_model)")
        self.args, self.version = args, "tandem"
        self.dtype, _, self.kv_cache_dtype = dtype.partition("/")

    def run(self, requests, new_tokens, batch, repeat=1):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps({"encoder_ids": r, "new_tokens": n}) + "\n"
                            for r, n in zip(requests, new_tokens))
            file.flush()
            source = ["--requests", file.name]
            if self.args.bins:
                source = [*speech_flags(self.args), "--new-tokens", new_tokens[0]]
            command = [self.args.bench, "--model", self.args.model, "--batch", len(requests), "--max-num-seqs",
                       batch * self.args.beams, "--beams", self.args.beams, "--dtype", self.dtype,
                       "--kv-cache-dtype", self.kv_cache_dtype or "auto", "--threads", self.args.threads,
                       "--repeat", repeat, *source, "--json"]
            done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"compare_peers: bench_model ended with status {done.returncode}")
        return json.loads(done.stdout)

    def close(self):
        pass


def speech_flags(args):
    if not args.bins:
        return []
    return ["--frames", args.windows, "--num-frames", WINDOW_FRAMES, "--frame-width", args.bins, "--decoder-prompt",
            ",".join(map(str, SPEECH_PROMPT))]


def write_windows(args):
    """Random frames of the range that log-mel features have, which change slowly."""
    import array
    chance = random.Random(args.seed)
    args.cache.mkdir(parents=True, exist_ok=True)
    with open(args.windows, "wb") as file:
        for _ in range(max(args.batches)):
            row = [chance.uniform(-1, 1) for _ in range(args.bins)]
            for _ in range(WINDOW_FRAMES):
                row = [0.7 * value + 0.3 * chance.uniform(-1.5, 1.5) for value in row]
                array.array("f", row).tofile(file)


def python_of(args):
    return args.venv / "bin/python" if args.venv else sys.executable


def install(args):
    if not args.venv:
        sys.exit("compare_peers: --install needs --venv DIR")
    if not (args.venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(args.venv)], check=True)
    subprocess.run([str(python_of(args)), "-m", "pip", "install", "--quiet", *PEERS], check=True)


def start(name, args):
    if name in OURS:
        return Tandem(args, OURS[name])
    if name not in NAMES:
        sys.exit(f"compare_peers: no engine {name}: {', '.join([*OURS, *NAMES])}")
    return Peer(name, args)


def skewed(chance, low, high):
    """Half of them below about a third of the way from low to high, in octaves."""
    return round(low * (high / low) ** (chance.random() ** 1.6))


def make_requests(args):
    """The requests and how many tokens each is to get."""
    config = args.config
    if args.bins:  # a request is the number of its window
        return [[i] for i in range(max(args.batches))], [args.new_tokens] * max(args.batches)
    chance = random.Random(args.seed)
    low, high = 4, compare_types.vocabulary(args.model) - 2  # no special token inside
    first = [config["bos_token_id"]] if config["model_type"] == "bart" else []
    count = args.mixed or max(args.batches)
    sizes = [(skewed(chance, 32, 512), skewed(chance, 8, 128)) if args.mixed else
             (args.source_tokens, args.new_tokens) for _ in range(count)]
    requests = [[*first, *(chance.randint(low, high) for _ in range(n - 1 - len(first))), config["eos_token_id"]]
                for n, _ in sizes]
    return requests, [n for _, n in sizes]


def compare_tokens(name, args, judge, requests, got, want):
    """Counts requests that agree, that part at a tie of HuggingFace's, and that differ. Exits on a difference in fp32."""
    same = ties = wrong = 0
    first = ""
    for i, (g, w) in enumerate(zip(got, want)):
        if g == w:
            same += 1
            continue
        at = next((k for k, (a, b) in enumerate(zip(g, w)) if a != b), min(len(g), len(w)))
        if len(g) != len(w):
            lead = float("nan")
        elif args.beams > 1:  # how much less probable HuggingFace finds the whole
            ours, theirs = judge.ask(judge="scores", requests=[requests[i]] * 2, tokens=[g, w])["judged"]
            lead = theirs - ours
        else:
            lead = judge.ask(judge="leads", requests=[requests[i]], tokens=[w])["judged"][0][at]
        if lead < TIE:
            ties += 1
        else:
            wrong += 1
            first = first or (f"request {i}, position {at}: {g[at:at+4]} instead of {w[at:at+4]} "
                              f"({len(g)} and {len(w)} tokens, HuggingFace's lead {lead:.4g})")
    if len(got) != len(want):
        wrong, first = len(want), f"{len(got)} answers to {len(want)} requests"
    print(f"  {name}: {same} of {len(want)} requests agree with HuggingFace" +
          (f", {ties} part at a tie" if ties else "") + (f", {wrong} differ: {first}" if wrong else ""), flush=True)
    if wrong and (name == "tandem" or name in EXACT and args.beams == 1):
        sys.exit(f"compare_peers: {name} computes something else; timing it would mean nothing")
    return {"same": same, "ties": ties, "different": wrong}


def measure(args, engines, judge, batch, requests, new_tokens):
    """What each round of each engine gave; the time to the first token is that of generating one."""
    rows = {name: {"seconds": [], "ttft_ms": [], "p50": [], "p95": [], "cpu": [], "rate": [], "peak_rss_mb": 0.0} for name in engines}
    names = list(engines)
    for turn in range(args.rounds + args.warm_up):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            engine, row = engines[name], rows[name]
            time.sleep(args.pause)
            rate = judge.ask(probe=True)["gflops"]
            time.sleep(args.pause)
            done = engine.run(requests, new_tokens, batch, args.repeat)
            if [len(ids) for ids in done["token_ids"]] != new_tokens:
                sys.exit(f"compare_peers: {name} did other work than asked for")
            print(f"  {name}: {done['seconds']:.2f} s, CPU {done['cpu_seconds']:.2f} s", flush=True)
            row["peak_rss_mb"] = max(row["peak_rss_mb"], done["peak_rss_mb"])
            if turn < args.warm_up:  # warms up caches and primitive caches
                continue
            row["seconds"].append(done["seconds"])
            row["cpu"].append(done["cpu_seconds"])
            row["rate"].append(rate)
            row["p50"].append(percentile(done["latencies"], 0.50))
            row["p95"].append(percentile(done["latencies"], 0.95))
            if args.beams == 1 and not args.mixed:
                row["ttft_ms"].append(done["ttft_ms"] if "ttft_ms" in done else 1000 * engine.run(
                    requests, [1] * len(requests), batch, args.repeat)["seconds"])
    return rows


class Limits:
    """What the machine could do at most in our types, of greedy batches of texts; the best of its probes counts."""

    def __init__(self, args):
        self.args, self.program, self.shapes, self.best = args, args.bench.with_name("bench_probes"), None, {}
        self.dtypes = {OURS[name].partition("/")[0] for name in args.engines if name in OURS}
        if args.bins or args.mixed or args.beams > 1 or not self.dtypes or not self.program.exists():
            return
        try:
            self.shapes = machine_limits.Shapes(args.model)
        except (ValueError, KeyError, OSError) as error:
            print(f"  no limits are stated: {error}", flush=True)

    def probe(self):
        if self.shapes is None:
            return
        for dtype, rates in machine_limits.probe(self.program, self.args.threads, self.shapes, self.dtypes).items():
            self.best[dtype] = tuple(map(max, rates, self.best.get(dtype, rates)))

    def add_to(self, results):
        for r in results:
            if self.best and r["engine"] in OURS:
                dtype, _, keys = OURS[r["engine"]].partition("/")
                least = machine_limits.least_seconds(self.shapes, dtype, self.best, r["batch"], self.args.source_tokens,
                                                     self.args.new_tokens, 1 if keys else None)
                r["limit_tokens_per_second"] = r["batch"] * self.args.new_tokens / least
                r["probe_gflops"], r["probe_gbytes"] = (1e-9 * rate for rate in self.best[dtype])


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def summarise(batch, rows, new_tokens):
    results = []
    for name, row in rows.items():
        seconds = statistics.median(row["seconds"])
        results.append({
            "engine": name, "batch": batch, "seconds": seconds, "best_seconds": min(row["seconds"]),
            "rounds": row["seconds"], "tokens_per_second": sum(new_tokens) / seconds,
            "cpu_seconds": statistics.median(row["cpu"]), "p50": statistics.median(row["p50"]), "p95": statistics.median(row["p95"]),
            "product_gflops": statistics.median(row["rate"]),
            "ttft_ms": statistics.median(row["ttft_ms"] or [0]), "peak_rss_mb": row["peak_rss_mb"]})
    # Round by round, so that what slowed a round down cancels out.
    for r in results:
        for ours in OURS:
            if ours in rows:
                r[f"{ours}_ratio"] = statistics.median(a / b for a, b in zip(r["rounds"], rows[ours]["seconds"]))
    return results


def markdown(report):
    work = (f"{report['mixed']} requests of {min(report['sources'])} to {max(report['sources'])} source tokens and "
            f"{min(report['targets'])} to {max(report['targets'])} new tokens" if report["mixed"] else
            f"windows of {WINDOW_SECONDS} s, {report['new_tokens']} new tokens" if report["speech"] else
            f"{report['source_tokens']} source tokens, {report['new_tokens']} new tokens")
    how = f"{report['beams']} beams" if report["beams"] > 1 else "greedy"
    last = "p50, s | p95, s" if report["mixed"] else "first token, ms" if report["beams"] == 1 else ""
    ours = [name for name in OURS if any(r["engine"] == name for r in report["results"])]
    lines = [f"{report['model']}: {work}, {how}, {report['threads']} threads, {report['cpu']}, {report['date']}. "
             f"Median of {report['rounds']} interleaved rounds. \"X by\": how many times as fast X is.", "",
             f"| batch | engine | s | CPU s | tokens/s | {''.join(f'{name} by | ' for name in ours)}"
             f"{last + ' | ' if last else ''}{'RTFx | ' if report['speech'] else ''}"
             "peak memory, MB | bf16 products, GFLOP/s | of the limit |"]
    lines.append("|---" * (lines[-1].count("|") - 1) + "|")
    for r in report["results"]:
        ratios = [f"{r[k]:.2f}" if k in r else "" for k in (f"{name}_ratio" for name in ours)]
        cells = [r["batch"], r["engine"], f"{r['seconds']:.2f}", f"{r['cpu_seconds']:.2f}", f"{r['tokens_per_second']:.0f}", *ratios]
        cells += [f"{r['p50']:.2f}", f"{r['p95']:.2f}"] if report["mixed"] else \
            [f"{r['ttft_ms']:.0f}"] if report["beams"] == 1 else []
        cells += [f"{WINDOW_SECONDS * r['batch'] / r['seconds']:.1f}"] if report["speech"] else []
        cells += [f"{r['peak_rss_mb']:.0f}", f"{r['product_gflops']:.0f}"]
        limit = r.get("limit_tokens_per_second")
        cells.append(f"{100 * r['tokens_per_second'] / limit:.0f} %" if limit else "")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "Versions: " + "; ".join(sorted(set(report["versions"].values()))) + "."]
    return "\n".join(lines) + "\n"


def compare_all(args, engines, judge, requests, new_tokens):
    """Each engine's tokens of the first requests beside those of HuggingFace, the judge."""
    print("tokens:", flush=True)
    some, lengths = requests[:args.compare], new_tokens[:args.compare]
    want = judge.run(some, lengths, max(args.batches))["token_ids"]
    print(f"  hf: {len({t for row in want for t in row})} different tokens", flush=True)
    return {name: compare_tokens(name, args, judge, some, engine.run(some, lengths, max(args.batches))["token_ids"], want)
            for name, engine in engines.items() if name != "hf"}


def main():
    args = parse(sys.argv[1:])
    if args.install:
        install(args)
    requests, new_tokens = make_requests(args)
    if args.bins:
        write_windows(args)
    engines = {name: start(name, args) for name in args.engines}
    judge = engines["hf"] if "hf" in engines else start("hf", args)
    agreement = compare_all(args, engines, judge, requests, new_tokens) if args.compare else {}

    report = {"model": args.model.name, "source_tokens": args.source_tokens, "new_tokens": args.new_tokens, "speech": args.bins is not None,
              "beams": args.beams, "mixed": args.mixed, "sources": list(map(len, requests)), "targets": new_tokens,
              "threads": args.threads, "rounds": args.rounds, "repeat": args.repeat, "seed": args.seed, "cpu": machine_limits.cpu_name(),
              "date": datetime.date.today().isoformat(), "versions": {n: e.version for n, e in engines.items()},
              "agreement": agreement, "results": []}
    limits = Limits(args)
    for batch in args.batches:
        print(f"batch {batch}: {args.rounds} rounds", flush=True)
        count = args.mixed or batch
        limits.probe()
        rows = measure(args, engines, judge, batch, requests[:count], new_tokens[:count])
        limits.probe()
        report["results"] += summarise(batch, rows, new_tokens[:count])
        limits.add_to(report["results"])  # of all batches: a later probe may have seen a faster machine
        args.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        args.out.with_suffix(".md").write_text(markdown(report))
        args.out.with_suffix(".svg").write_text(machine_limits.svg(report))
    for engine in {*engines.values(), judge}:
        engine.close()
    print("\n" + markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
