#!/usr/bin/env python3
"""What constrained output costs a server: tokens a second with a constraint, over tokens a second without, in turns.

    constrained.py --model examples/demo-model [--requests 32] [--tokens 48] [--rounds 5] [-- --dtype int8]

--requests clients send one request each, at once; the next round begins when all have their answers. Each round has every
kind once, in turn, so that a machine whose speed drifts changes all alike; the median of the rounds' ratios counts. All
sources are random tokens, and every answer has exactly --tokens tokens: constraints are of texts without an end, or with
one that is further away. The first round warms up and does not count: it makes the constraints and most of their masks.
What stands behind "--" goes to `tandem serve`. Needs nothing but Python.
"""
import argparse, concurrent.futures, datetime, itertools, json, os, pathlib, random, statistics, sys, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/support"))
from tandem_server import TandemServer, random_sources  # noqa: E402

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
          "required": ["name", "age"]}
KINDS = {
    "none": {},
    "expression: words": {"guided_regex": "([a-z]+ ){500}"},
    "schema: a list of objects": {"guided_json": {"type": "array", "items": PERSON, "minItems": 200}},
    "grammar: sums": {"guided_grammar": 'root ::= sum "=" sum\nsum ::= sum [-+] num | num [-+] num\nnum ::= [0-9]+'},
    "allowed tokens": {"allowed_token_ids": list(range(10, 400))},
}


def parse(argv):
    own, server = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/demo-model")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where tandem is")
    p.add_argument("--requests", type=int, default=32)
    p.add_argument("--source", type=int, default=64, help="tokens of a source")
    p.add_argument("--tokens", type=int, default=48, help="tokens of an answer")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(own)
    args.server = server
    return args


def bodies(args, fields, chance):
    for ids in itertools.islice(random_sources(args.model, args.source, chance), args.requests):
        yield json.dumps({"prompt": ids, "temperature": 0, "max_tokens": args.tokens, "min_tokens": args.tokens, **fields}).encode()


def ask(port, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))["usage"]["completion_tokens"]


def tokens_a_second(port, args, fields, pool, chance):
    prepared = list(bodies(args, fields, chance))
    begun = time.monotonic()
    counts = list(pool.map(lambda body: ask(port, body), prepared))
    if set(counts) != {args.tokens}:
        sys.exit(f"constrained: answers of {sorted(set(counts))} tokens instead of {args.tokens}")
    return sum(counts) / (time.monotonic() - begun)


def main():
    args = parse(sys.argv[1:])
    chance = random.Random(args.seed)
    rates = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.requests) as pool:
        flags = ["--no-enable-encoder-cache", "--no-enable-prefix-caching", *args.server]
        server = TandemServer(args.bin / "tandem", [args.model, *flags], pathlib.Path(folder))
        try:
            for round_ in range(args.rounds + 1):
                for kind, fields in KINDS.items():
                    rate = tokens_a_second(server.port, args, fields, pool, chance)
                    if round_ > 0:
                        rates[kind].append(rate)
        finally:
            server.close()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {args.requests} requests, {args.source} tokens in, {args.tokens} out, "
          f"{args.rounds} rounds {' '.join(args.server)}")
    print("| constraint | tokens/s | of those without | least, most |\n|---|---|---|---|")
    for kind, all_ in rates.items():
        ratios = [a / b for a, b in zip(all_, rates["none"])]
        print(f"| {kind} | {statistics.median(all_):.0f} | {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} |")


if __name__ == "__main__":
    main()
