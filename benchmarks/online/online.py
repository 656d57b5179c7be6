#!/usr/bin/env python3
"""What continuous batching is worth to users: Poisson arrivals at several rates against `tandem serve`, and against
CTranslate2 and HuggingFace behind a simple HTTP server with dynamic batching (peer_server.py).

    online.py --model DIR [--venv DIR [--install]] [--systems tandem,ct2,hf,tandem-int8,ct2-int8]
              [--rates 1,2,4,6,8,12,16] [--seconds 16] [--out online]

Requests of 32 to 512 source tokens and 8 to 128 new ones, most of them short, greedy; each gets exactly its number of
tokens from every system, or the run stops. For each rate the systems are measured one after the other with the same
requests at the same times; those that do not wait for their turn do nothing. A system that cannot keep up with a rate
is not asked for a higher one. All stream, so the first token's time is the client's. Tandem runs with its caches of
encoder outputs and prefixes off, since the requests come again.

--model is made by make_random_bart if it is not there. --install makes --venv and installs the peers there with pip;
without --venv this interpreter must have them. Writes OUT.json, OUT.md and OUT.svg, after each point anew. The whole
takes at most --budget seconds; then it ends with what it has.
"""
import argparse, asyncio, datetime, json, os, pathlib, platform, signal, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "benchmarks/support")]
import load, report  # noqa: E402
from tandem_server import TandemServer  # noqa: E402

PEERS = ["ctranslate2", "transformers<5", "torch", "numpy", "safetensors"]
OURS = {"tandem": "float32", "tandem-bf16": "bfloat16", "tandem-int8": "int8"}
EXACT = ("tandem", "ct2", "hf")  # fp32: should agree


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--cache", type=pathlib.Path, help="converted models; default: MODEL.converted")
    p.add_argument("--venv", type=pathlib.Path)
    p.add_argument("--install", action="store_true")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where tandem and make_random_bart are")
    p.add_argument("--systems", default="tandem,ct2,hf,tandem-int8,ct2-int8")
    p.add_argument("--rates", default="1,2,4,6,8,12,16", help="requests a second")
    p.add_argument("--seconds", type=float, default=16, help="of arrivals, at each point")
    p.add_argument("--limit", type=float, default=32, help="seconds of a point; what is not done then is given up")
    p.add_argument("--budget", type=float, default=660, help="seconds of everything")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--max-batch", type=int, default=16, help="of the peers")
    p.add_argument("--max-wait", type=float, default=0.005, help="seconds a peer waits for a batch to fill")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("online"))
    args = p.parse_args(argv)
    args.model = args.model.resolve()
    args.cache = args.cache or args.model.with_name(args.model.name + ".converted")
    args.systems = [s for s in args.systems.split(",") if s]
    args.rates = sorted(float(r) for r in args.rates.split(","))
    return args


def prepare(args):
    if args.install:
        if not args.venv:
            sys.exit("online: --install needs --venv DIR")
        subprocess.run([sys.executable, "-m", "venv", str(args.venv)], check=True)
        subprocess.run([str(args.venv / "bin/python"), "-m", "pip", "install", "--quiet", *PEERS], check=True)
    if not (args.model / "config.json").exists():
        subprocess.run([str(args.bin / "make_random_bart"), "--out", str(args.model)], check=True)


class Tandem(TandemServer):
    def __init__(self, name, args, folder):
        super().__init__(args.bin / "tandem", [args.model, "--dtype", OURS[name], "--threads", args.threads, "--no-enable-encoder-cache",
                                               "--no-enable-prefix-caching"], folder)
        self.setting = f"tandem serve, {OURS[name]}, {args.threads} threads, caches off, else as it comes"


class Peer:
    def __init__(self, name, args, folder, burst):
        python = args.venv / "bin/python" if args.venv else sys.executable
        command = [python, HERE / "peer_server.py", name, "--model", args.model, "--cache", args.cache, "--threads",
                   args.threads, "--max-batch", args.max_batch, "--max-wait", args.max_wait, "--burst", burst]
        environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), TOKENIZERS_PARALLELISM="false",
                           HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
        with open(folder / f"{name}.log", "wb") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=environment)
        try:
            line = self.process.stdout.readline()
        except BaseException:
            self.close()
            raise
        if not line:
            sys.exit(f"online: {name} ended: {(folder / f'{name}.log').read_text()[-2000:]}")
        told = json.loads(line)
        self.port, self.setting = told["port"], f"{told['version']}; {told['setting']}"

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def agreement(systems, requests):
    """One request after the other: warms up, and tells how many of the fp32 systems' token lists are the same."""
    got = {name: [asyncio.run(load.ask(s.port, r))["tokens"] for r in requests] for name, s in systems.items()}
    exact = [name for name in EXACT if name in got]
    return {name: sum(a == b for a, b in zip(got[name], got[exact[0]])) for name in exact[1:]} if exact else {}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def write(args, result):
    args.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    args.out.with_suffix(".md").write_text(report.markdown(result))
    if any(p["e2el_p50"] is not None for p in result["points"]):
        args.out.with_suffix(".svg").write_text(report.svg(result))


def measure(args, systems, config, result, deadline):
    for number, rate in enumerate(args.rates):
        arrivals = load.make_arrivals(rate, args.seconds, args.seed + number)
        requests = load.make_requests(config, len(arrivals), args.seed)
        names = list(systems)
        for name in names[number % len(names):] + names[:number % len(names)] if names else []:
            if not arrivals or time.monotonic() + args.seconds > deadline:
                return
            limit = min(args.limit, deadline - time.monotonic())
            time.sleep(0.5)  # threads that spin go to sleep
            done, unfinished, seconds = asyncio.run(load.run_point(systems[name].port, requests, arrivals, limit))
            point = dict(load.summarise(done, unfinished, seconds, rate, arrivals), system=name)
            result["points"].append(point)
            print(f"{rate:g}/s {name}: served {point['requests_per_second']:.2f}/s, p50 {report.cell(point['e2el_p50'])} s, "
                  f"p99 {report.cell(point['e2el_p99'])} s{', full' if point['saturated'] else ''}", flush=True)
            write(args, result)
            if point["saturated"]:
                systems.pop(name).close()


def main():
    args = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the servers, too
    prepare(args)
    deadline = time.monotonic() + args.budget
    config = json.loads((args.model / "config.json").read_text())
    systems = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        burst = folder / "burst.json"
        burst.write_text(json.dumps(load.make_requests(config, 12, args.seed + 1000)))
        try:
            for name in args.systems:
                systems[name] = Tandem(name, args, folder) if name in OURS else Peer(name, args, folder, burst)
                print(f"{name}: {systems[name].setting}", flush=True)
            same = agreement(systems, load.make_requests(config, 3, args.seed + 2000, targets=(8, 24)))
            print(f"of 3 requests in fp32 the same tokens as the first fp32 system: {same}", flush=True)
            result = {"model": args.model.name, "cpu": cpu_name(), "threads": args.threads, "seconds": args.seconds,
                      "date": datetime.date.today().isoformat(), "seed": args.seed, "systems": args.systems,
                      "settings": {n: s.setting for n, s in systems.items()}, "agreement": same, "points": []}
            measure(args, systems, config, result, deadline)
            write(args, result)
        finally:
            for system in systems.values():
                system.close()
    print("\n" + report.markdown(result))


if __name__ == "__main__":
    main()
