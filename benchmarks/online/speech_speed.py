#!/usr/bin/env python3
"""Speed of speech: tandem serve beside faster-whisper, from files to texts, with a real Whisper.

    python3 benchmarks/online/speech_speed.py --peer-python /tmp/venv/bin/python [--dtypes int8,float32] [--work windows,batched,…]

The weights and the recordings come from scripts/real_models/fetch (or --model and --peer-model: checkpoints of the same weights, for
HuggingFace and for CTranslate2). The recordings that somebody speaks in follow each other, each time at another loudness, until there is
enough sound; so no two windows are the same. Files are WAV at 16 kHz. Each engine has --threads threads. Both are loaded
before anything is timed, and run in turn, --rounds times; the median counts. Greedy, no fallback, no text of the window before.

work       sound                     Tandem                                  faster-whisper
windows    --minutes                 one window after the other, times       WhisperModel, times
batched    --minutes                 chunks of 30 s without overlap          BatchedInferencePipeline, batches of 8 and of 32
vad        --vad-minutes             vad_filter, windows; and chunks         vad_filter, windows; and batches of 8
clients    16 clips of 20 to 30 s    16 requests at once                     16 threads, num_workers 2
first      a clip of 10 s            until a stream's first text             until the first segment of WhisperModel

Words are counted to show that both did the work. --peer-python needs faster-whisper. Writes OUT.json, and a table to standard output.
"""
import argparse, array, concurrent.futures, json, os, pathlib, random, statistics, subprocess, sys, tempfile, time, urllib.error, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/support"))
from tandem_server import TandemServer  # noqa: E402
from waves import RATE, read_wave, write_wave  # noqa: E402

CLIENTS = 16
SILENT = {"error.wav", "success.wav"}  # beeps

PEER = r'''
import concurrent.futures, json, sys, time
from faster_whisper import BatchedInferencePipeline, WhisperModel
model, dtype, threads = json.loads(sys.stdin.readline())
loaded = WhisperModel(model, device="cpu", compute_type=dtype, cpu_threads=threads)
many = WhisperModel(model, device="cpu", compute_type=dtype, cpu_threads=max(1, threads // 2), num_workers=2)
batched = BatchedInferencePipeline(loaded)
plain = dict(language="en", beam_size=1, temperature=0, condition_on_previous_text=False, compression_ratio_threshold=None,
             log_prob_threshold=None, no_speech_threshold=None)
def words(segments):
    return sum(len(s.text.split()) for s in segments)
def windows(files, **more):
    return words(loaded.transcribe(files[0], **plain, **more)[0])
def batches(files, size):
    return words(batched.transcribe(files[0], batch_size=size, **plain)[0])
def clients(files):
    with concurrent.futures.ThreadPoolExecutor(len(files)) as pool:
        return sum(pool.map(lambda f: words(many.transcribe(f, **plain)[0]), files))
def first(files):
    return len(next(loaded.transcribe(files[0], **plain)[0]).text.split())
WORK = {"windows": windows, "batches of 8": lambda f: batches(f, 8), "batches of 32": lambda f: batches(f, 32),
        "vad, windows": lambda f: windows(f, vad_filter=True), "vad, batches of 8": lambda f: batches(f, 8), "clients": clients, "first": first}
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    name, files = json.loads(line)
    begun = time.monotonic()
    count = WORK[name](files)
    print(json.dumps([time.monotonic() - begun, count]), flush=True)
'''
# work: of Tandem, of the peer. The fields of Tandem's form.
WORK = {
    "windows": ({"windows": {}}, ["windows"]),
    # (Without times the texts of chunks are joined by what they share, which is wrong without overlap.)
    "batched": ({"chunks": {"chunk_length_s": "30", "stride_length_s": "0", "return_timestamps": "true"}}, ["batches of 8", "batches of 32"]),
    "vad": ({"vad, windows": {"vad_filter": "true"},
             "vad, chunks": {"vad_filter": "true", "chunk_length_s": "30", "stride_length_s": "0", "return_timestamps": "true"}},
            ["vad, windows", "vad, batches of 8"]),
    "clients": ({"clients": {}}, ["clients"]),
    "first": ({"first": {"stream": "true"}}, ["first"]),
}


class Peer:
    def __init__(self, python, model, dtype, threads):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen([python, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.ask([str(model), dtype, threads])

    def ask(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self, name, files):
        return self.ask([name, [str(f) for f in files]])

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class Tandem:
    def __init__(self, tandem, model, dtype, threads, vad_model, folder):
        vad = ["--vad-model", vad_model] if vad_model else []
        self.server = TandemServer(tandem, [model, "--dtype", dtype, "--threads", threads, "--no-enable-encoder-cache",
                                                "--no-enable-prefix-caching", *vad], folder)
        self.url = f"http://127.0.0.1:{self.server.port}/v1/audio/transcriptions"

    def open(self, file, fields):
        parts = b"".join(b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value.encode())
                         for name, value in fields.items())
        body = (parts + b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + file.read_bytes() + b"\r\n--b--\r\n")
        request = urllib.request.Request(self.url, body, {"Content-Type": "multipart/form-data; boundary=b"})
        try:
            return urllib.request.urlopen(request, timeout=900)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"tandem: {error.read().decode()}")

    def words(self, file, fields):
        with self.open(file, fields) as answer:
            return len(json.load(answer)["text"].split())

    def first(self, file, fields):
        """Seconds until the first text, and its words."""
        begun = time.monotonic()
        with self.open(file, fields) as answer:
            for line in answer:
                event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
                if event.get("type") == "transcript.text.delta" and event["delta"].strip():
                    return time.monotonic() - begun, len(event["delta"].split())
        raise SystemExit("a stream without a text")

    def run(self, name, fields, files):
        fields = {"temperature": "0", **fields}
        if name == "first":
            return self.first(files[0], fields)
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(files)) as pool:
            count = sum(pool.map(lambda f: self.words(f, fields), files))
        return time.monotonic() - begun, count

    def close(self):
        self.server.close()


def speech(recordings, seconds, rng):
    """So much of the recordings, one after the other, each at another loudness."""
    out = array.array("h")
    while len(out) < seconds * RATE:
        for samples in recordings:
            loud = rng.uniform(0.6, 1.0)
            out.extend(int(x * loud) for x in samples)
    return out[:int(seconds * RATE)]


def make_sounds(args, folder):
    """{work: its files}, and the seconds of each."""
    rng = random.Random(args.seed)
    recordings = [read_wave(path) for path in sorted((args.real / "recordings").glob("*.wav")) if path.name not in SILENT]
    sounds, seconds = {}, {}
    for name, lengths in (("windows", [60 * args.minutes]), ("batched", [60 * args.minutes]), ("vad", [60 * args.vad_minutes]),
                          ("clients", [rng.uniform(20, 30) for _ in range(CLIENTS)]), ("first", [10])):
        if name not in args.work:
            continue
        sounds[name] = []
        for i, length in enumerate(lengths):
            at = rng.randrange(0, 20 * RATE) if name == "clients" else 0
            samples = speech(recordings, length + at / RATE, rng)[at:]
            sounds[name].append(write_wave(folder / f"{name}-{i}.wav", samples))
        seconds[name] = sum(lengths)
    return sounds, seconds


def compare(args, dtype, sounds, seconds, folder):
    """[{work, engine, seconds, words}]"""
    peer = Peer(args.peer_python, args.peer_model, dtype, args.threads)
    tandem = Tandem(args.tandem, args.model, dtype, args.threads, args.vad_model, folder)
    rows = []
    try:
        for work, files in sounds.items():
            ours, theirs = WORK[work]
            runs = [("Tandem", name, lambda name=name, fields=fields: tandem.run(name, fields, files)) for name, fields in ours.items()]
            runs += [("faster-whisper", name, lambda name=name: peer.run(name, files)) for name in theirs]
            found = {run[:2]: [] for run in runs}
            short = seconds[work] < 60  # what has not run yet is slower
            for round in range((args.rounds if not short else max(args.rounds, 5)) + short):
                for engine, name, run in runs:
                    time.sleep(args.pause)
                    result = run()
                    if not short or round > 0:
                        found[engine, name].append(result)
                    print(dtype, engine, name, "%.2f s, %d words" % tuple(result), file=sys.stderr, flush=True)
            for (engine, name), results in found.items():
                rows.append({"dtype": dtype, "work": work, "engine": engine, "name": name, "sound": seconds[work],
                             "seconds": statistics.median(r[0] for r in results), "words": results[0][1]})
    finally:
        tandem.close()
        peer.close()
    return rows


def table(rows):
    lines = ["| type | work | sound, s | engine | s | seconds of sound a second | words | Tandem is faster by |", "|---" * 8 + "|"]
    for row in rows:
        best = min(r["seconds"] for r in rows if r["engine"] == "Tandem" and (r["dtype"], r["work"]) == (row["dtype"], row["work"]))
        lines.append(f"| {row['dtype']} | {row['name']} | {row['sound']:.0f} | {row['engine']} | {row['seconds']:.2f} | "
                     f"{row['sound'] / row['seconds']:.0f} | {row['words']} | {row['seconds'] / best:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--tandem", default=ROOT / "build/bin/tandem", type=pathlib.Path)
    parser.add_argument("--real", default=ROOT / "build/real_models", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--peer-model", type=pathlib.Path)
    parser.add_argument("--vad-model", help="Tandem's, if silero-vad is not installed where it looks (docs/speech.md)")
    parser.add_argument("--dtypes", default="int8,float32")
    parser.add_argument("--work", default=",".join(WORK), help="some of the table's, with commas")
    parser.add_argument("--minutes", default=5.0, type=float)
    parser.add_argument("--vad-minutes", default=60.0, type=float)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--pause", default=0.5, type=float, help="seconds between two runs, for threads that spin to sleep")
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--out", default="speech_speed")
    args = parser.parse_args()
    args.work = args.work.split(",")
    if unknown := set(args.work) - WORK.keys():
        parser.error(f"--work: there is no {', '.join(unknown)}")
    fetched = subprocess.run([ROOT / "scripts/real_models/fetch", args.real], stdout=subprocess.DEVNULL)
    if fetched.returncode != 0:
        sys.exit(fetched.returncode)
    args.model = args.model or args.real / "whisper-tiny.en"
    args.peer_model = args.peer_model or args.real / "ctranslate2"
    with tempfile.TemporaryDirectory() as folder:
        sounds, seconds = make_sounds(args, pathlib.Path(folder))
        rows = [row for dtype in args.dtypes.split(",") for row in compare(args, dtype, sounds, seconds, folder)]
    pathlib.Path(args.out + ".json").write_text(json.dumps(rows, indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
