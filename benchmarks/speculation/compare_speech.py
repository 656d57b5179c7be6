#!/usr/bin/env python3
"""Drafts for transcripts: `tandem serve` without drafts, with looked-up ones and with draft models, in turns, on real speech.

    python3 scripts/real_models/fetch                                              # tiny.en's weights, and recordings
    benchmarks/speculation/make_models.py doubled --model build/real_models/whisper-tiny.en --out /tmp/doubled    # small's shape
    benchmarks/speculation/compare_speech.py --model /tmp/doubled --draft-models build/real_models/whisper-tiny.en [--dtypes float32,int8]

Each clip is a request alone, and a new one: nothing is cached, also between rounds (each has a salt). All ways must give
the same texts: else the exit status is 1. A ratio is that of a round over "none"; the table has their medians.
"""
import argparse, json, pathlib, random, re, statistics, sys, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "benchmarks/support")]
from tandem_server import TandemServer  # noqa: E402
from waves import RATE, read_wave, write_wave  # noqa: E402


def transcribe(server, file, salt):
    """(seconds, text)"""
    fields = {"temperature": "0", "cache_salt": salt}
    parts = b"".join(b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value.encode())
                     for name, value in fields.items())
    body = parts + b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + file.read_bytes() + b"\r\n--b--\r\n"
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/audio/transcriptions", body,
                                     {"Content-Type": "multipart/form-data; boundary=b"})
    begun = time.monotonic()
    with urllib.request.urlopen(request, timeout=600) as answer:
        text = json.load(answer)["text"]
    return time.monotonic() - begun, text


def counters(server):
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60).read().decode()
    return {name: float(value) for name, value in re.findall(r"^tandem:(\w+_total)\{[^}]*\} (\S+)$", text, re.M)}


def clips(args, folder):
    """Pieces of the recordings, each at another loudness."""
    rng = random.Random(args.seed)
    sounds = [read_wave(path) for path in sorted((args.real / "recordings").glob("*.wav"))]
    sounds = [s for s in sounds if len(s) >= 10 * RATE]
    files = []
    for i in range(args.clips):
        sound = sounds[i % len(sounds)]
        at, loud = rng.randrange(0, max(1, len(sound) - args.seconds * RATE)), rng.uniform(0.6, 1.0)
        files.append(write_wave(folder / f"{i}.wav", type(sound)("h", (int(x * loud) for x in sound[at:at + args.seconds * RATE]))))
    return files


def compare(args, dtype, files, folder):
    common = [args.model, "--dtype", dtype, "--threads", args.threads, "--no-enable-encoder-cache", "--no-enable-prefix-caching"]
    ways = {"none": ["--num-speculative-tokens", 0], "looked up": []}
    ways |= {pathlib.Path(draft).name: ["--draft-model", draft] for draft in args.draft_models.split(",") if draft}
    servers, seconds, same = {}, {way: [] for way in ways}, True
    try:
        for way, flags in ways.items():
            servers[way] = TandemServer(args.tandem, common + flags, folder)
            transcribe(servers[way], files[0], "warm")
        before = {way: counters(servers[way]) for way in ways}
        for round in range(args.rounds):
            spent, texts = dict.fromkeys(ways, 0.0), {}
            for file in files:
                for way in ways:
                    took, texts[way] = transcribe(servers[way], file, f"{round}")
                    spent[way] += took
                for way in ways:
                    if texts[way] != texts["none"]:
                        same = False
                        print(f"{dtype}, {way}, {file.name}: {texts[way]!r} is not {texts['none']!r}", file=sys.stderr)
            for way in ways:
                seconds[way].append(spent[way])
        for way in ways:
            now = {name: value - before[way].get(name, 0) for name, value in counters(servers[way]).items()}
            ratios = [none / own for none, own in zip(seconds["none"], seconds[way])]
            drafted = now.get("spec_decode_num_draft_tokens_total", 0)
            right = f"{now['spec_decode_num_accepted_tokens_total'] / drafted:.0%} of {drafted / args.rounds:.0f}" if drafted else ""
            encoder = now["encoder_seconds_total"] / args.rounds
            print(f"| {dtype} | {way} | {statistics.median(seconds[way]):.2f} | {encoder:.2f} | {now['generation_tokens_total'] / args.rounds:.0f} | "
                  f"{right} | {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} |", flush=True)
    finally:
        for server in servers.values():
            server.close()
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default=ROOT / "build/bin/tandem")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft-models", default="", help="directories, with commas")
    parser.add_argument("--real", default=ROOT / "build/real_models", type=pathlib.Path)
    parser.add_argument("--dtypes", default="float32,int8")
    parser.add_argument("--clips", default=6, type=int)
    parser.add_argument("--seconds", default=28, type=int, help="of a clip")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--seed", default=1, type=int)
    args = parser.parse_args()
    print("| type | drafts | s | encoders, s | tokens | drafts right | faster by | least, most |\n" + "|---" * 8 + "|")
    with tempfile.TemporaryDirectory() as folder:
        files = clips(args, pathlib.Path(folder))
        same = [compare(args, dtype, files, folder) for dtype in args.dtypes.split(",")]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
