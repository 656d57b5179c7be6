"""The measurements: Tandem and PyTorch on the same GPU and work, beams, a server under load (docs/gpu.md)."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from check_steps import Failed, NotRun, Step, TooLong, independent, setting

# cuBLASLt's products and logits where ours would be (docs/gpu.md).
library = setting("TANDEM_DIRECT_ROWS", "0")
heads_apart = setting("TANDEM_HEAD_BEST_ROWS", "0")
clusters = setting("TANDEM_CLUSTER_ROWS", "128")
step_kernel = setting("TANDEM_STEP_KERNEL_ROWS", "8")
WIDE_TILES = {"TANDEM_WIDE_TILES_ROWS": "512"}
wide_tiles = setting(*next(iter(WIDE_TILES.items())))
small_grid = setting("TANDEM_EMULATOR_MULTIPROCESSORS", "3")  # a real device has those that it has
BATCHES = "1,8,32,64,128"
REPEAT = 7
# A tiny model shows that the steps work where there is no GPU.
SMALL = ["--least-source", "8", "--most-source", "20", "--new-tokens", "6"]


def model(run):
    """A random BART-large; made once."""
    size = "large" if run.gpu else "tiny"
    folder = run.kept / f"bart-{size}"
    if not (folder / "made").exists():
        status, _ = run.call([run.pack / "bin/make_random_bart", "--out", folder, "--size", size])
        if status != 0:
            raise Failed(f"make_random_bart: status {status}")
        (folder / "made").touch()  # whole
    return folder


def make_model(run):
    folder = model(run)
    return {"model": folder.name, "MB": round((folder / "model.safetensors").stat().st_size / 1e6)}


def python_says(program):
    """Whether it prints True, and its imports are there."""
    return "True" in subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout


def model_t5(run):
    """A random FLAN-T5-XL, made where it is measured."""
    size = "xl" if run.gpu else "tiny"
    folder = run.kept / f"t5-{size}"
    if not (folder / "made").exists():
        if not python_says("import torch, safetensors; print(True)"):
            raise NotRun("python3 has no PyTorch and safetensors")
        status, _ = run.call([sys.executable, run.pack / "scripts/make_random_t5.py", "--out", folder, "--size", size], ours=False)
        if status != 0:
            raise Failed(f"make_random_t5.py: status {status}")
        (folder / "made").touch()
    return folder


def make_model_t5(run):
    return {"MB": round((model_t5(run) / "model.safetensors").stat().st_size / 1e6)}


def rows_of(text):
    """Lines that are JSON objects."""
    rows = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                pass
    return rows


def measure(run, command, **options):
    """(status, rows): of a benchmark that says a row as soon as it has it. Status None: it was ended for its time."""
    try:
        status, text = run.call(command, **options)
        return status, rows_of(text)
    except TooLong as e:
        return None, rows_of(e.output)


def ended(status):
    return "its time was up" if status is None else f"status {status}"


def ceilings(run):
    """The device's, as measured (ops.ceilings), else what its maker says; None: nobody does."""
    measured = run.kept / "ceilings.json"
    return json.loads(measured.read_text()) if measured.exists() else run.about.get("roofline")


def with_roofline(rows, roofline):
    for row in rows:
        if roofline and "decode_gb_per_second" in row:
            row["of memory"] = row["decode_gb_per_second"] / roofline["memory_gb_s"]
        if roofline and "encoder_tflop_per_second" in row and row.get("dtype") != "float32":
            row["of compute"] = row["encoder_tflop_per_second"] / roofline["bf16_tflop_s"]
    return rows


def tandem(batches, repeat, *arguments, beside=None, of=None):
    """of: another model than the random BART. beside: these rates are given as parts of those of the same work without the
    arguments, under this name."""
    def body(run):
        small = [] if run.gpu else SMALL
        command = [run.pack / "bin/bench_gpu", "--model", (of or model)(run), "--device", run.device, *arguments, "--repeat", repeat if run.gpu else 1,
                   "--batch", batches if run.gpu else "2,3", *small]
        status, rows = measure(run, command)
        rows = with_roofline(rows, ceilings(run))
        if beside:
            put_beside(rows, remembered(run), beside)
        elif of is None:
            remember(run, rows)
        if status != 0 or not rows:
            raise Failed(f"bench_gpu: {ended(status)}", {"rows": rows})
        return {"most tokens/s": max(r["tokens_per_second"] for r in rows), "rows": rows}
    return body


def remembered(run):
    """Rows of plain measurements, of this run and those that kept theirs."""
    file = run.kept / "rows.json"
    return json.loads(file.read_text()) if file.exists() else []


def remember(run, rows):
    (run.kept / "rows.json").write_text(json.dumps(remembered(run) + rows))


def put_beside(rows, others, name):
    plain = {(r["batch"], r["beams"], r["dtype"]): r for r in others}
    for row in rows:
        without = plain.get((row["batch"], row["beams"], row["dtype"]))
        if without:
            row[name] = row["tokens_per_second"] / without["tokens_per_second"]
            if row.get("prompts_ms") and without.get("prompts_ms"):
                row[f"{name}, prompts"] = without["prompts_ms"] / row["prompts_ms"]


def all_reduce(run):
    if run.about["kind"] == "cpu":
        raise NotRun("no GPU")
    if not (run.pack / "bin/bench_all_reduce").exists():
        raise NotRun("it is not in this pack (pack --several-gpus)")
    small = [] if run.gpu else ["--bytes", "2048,1048576", "--calls", "2", "--repeat", "1"]
    status, rows = measure(run, [run.pack / "bin/bench_all_reduce", *small], extra=None if run.gpu else {"TANDEM_EMULATOR_DEVICES": "2"})
    if status == 77:
        raise NotRun("one GPU: there is nobody to sum with")
    if status != 0 or not rows:
        raise Failed(f"bench_all_reduce: {ended(status)}", {"rows": rows})
    return {"rows": rows}


def torch(run):
    run.need_gpu()
    if not python_says("import torch; print(torch.cuda.is_available())"):
        raise NotRun("python3 has no PyTorch that sees the GPU")
    command = [sys.executable, run.pack / "scripts/compare_torch.py", "--batch", BATCHES, "--seconds", f"{run.left() - 10:.0f}"]
    # (Compiling for a batch size may take a minute: what was measured before stays.)
    status, rows = measure(run, command, ours=False, extra={"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"})
    measured = next((r for r in rows if "measured_memory_gb_s" in r), {})
    rows = [r for r in rows if "tokens_per_second" in r]
    ours = {r["batch"]: r["tokens_per_second"] for r in remembered(run) if r["beams"] == 1 and r["dtype"] == "bfloat16"}
    for row in rows:
        if row["batch"] in ours:
            row["tandem is faster by"] = ours[row["batch"]] / row["tokens_per_second"]
    if status not in (0, None) or not rows:
        raise Failed(f"compare_torch.py: {ended(status)}", {**measured, "rows": rows})
    if status is None:
        measured["not all"] = ended(status)
    return {**measured, "rows": rows}


# --- a server under load --------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_server(run, process, url):
    while process.poll() is None and run.left() > 1:
        try:
            with urllib.request.urlopen(url + "/v1/models", timeout=2) as answer:
                json.load(answer)
                return
        except (OSError, ValueError):
            time.sleep(0.2)
    raise Failed("the server did not come up")


def online(run, *flags):
    """Poisson arrivals at shares of what batches of 128 gave."""
    gpu = run.gpu
    ours = [r["tokens_per_second"] for r in remembered(run) if r["beams"] == 1 and r["dtype"] == "bfloat16"]
    new_tokens, length = (128, 350) if gpu else (6, 14)
    most = max(ours) / new_tokens if ours else (100 if gpu else 4)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = run.start([run.pack / "bin/tandem", "serve", model(run), "--device", run.device, "--dtype", "bfloat16", "--port", port,
                        "--client-port", "0", "--max-num-batched-tokens", "8192", "--no-enable-encoder-cache",
                        "--no-enable-prefix-caching", "--log-level", "warn", *flags, *run.at_start], stdin=subprocess.DEVNULL, stdout=run.log)
    rows = []
    try:
        await_server(run, server, url)
        for share in (0.25, 0.5, 0.75) if gpu else (0.5,):
            if run.left() < 12:
                break
            rate = most * share
            out = run.scratch / "online.json"
            out.unlink(missing_ok=True)
            requests = max(8, int(rate * min(12, run.left() / 3))) if gpu else 6
            status, _ = run.tandem("bench", "serve", "--base-url", url, "--random-input-len", str(length), "--random-range-ratio", "0.25",
                                   "--random-output-len", str(new_tokens), "--num-prompts", str(requests), "--request-rate", f"{rate:.3f}",
                                   "--metric-percentiles", "50,95,99", "--save-result", str(out))
            if status != 0:
                raise Failed(f"tandem bench serve: status {status}", {"rows": rows})
            rows.append(summary(json.loads(out.read_text()), rate))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    if not rows:
        raise Failed("nothing was measured in time")
    return {"rows": rows}


def online_encoders(run):
    """The same with encoders on a stream of their own: of a GPU of theirs, where there are two."""
    return online(run, "--encoder-ranks", "1")


def summary(saved, rate):
    keys = [k for k in saved if re.match(r"(p\d+|mean|median)_(ttft|tpot|e2el)_ms$", k)]
    row = {"requests/s asked": rate}
    row.update({k: saved[k] for k in ("num_prompts", "completed", "request_throughput", "output_throughput") if k in saved})
    row.update({k: saved[k] for k in keys if k.startswith("p")})
    return row


STEPS = [
    Step("bench.model", "a random BART-large is written", 60, 10, make_model),
    Step("bench.greedy", "bf16, greedy, 260 to 440 tokens in, 128 out", 75, 30, tandem(BATCHES, REPEAT)),
    Step("bench.independent", "the same without dependent launches, beside those of few rows", 60, 20,
         independent(tandem(BATCHES, REPEAT, beside="of plain"))),
    Step("bench.heads_apart", "the same with logits of all greedy rows, beside with the choice in the head", 35, 12,
         heads_apart(tandem("1,32,128", 5, beside="of best"))),
    Step("bench.library", "the same with cuBLASLt's products and heads from 9 rows on, beside ours", 35, 12,
         library(heads_apart(tandem("32,64,128", 5, beside="of ours")))),
    Step("bench.clusters", "the same with products of 9 to 128 rows by clusters, beside as they are", 35, 12,
         clusters(tandem("16,32,64,128", 5, beside="of plain"))),
    Step("bench.step_kernel", "the same with one kernel for a step of up to 8 rows, beside kernel by kernel", 35, 12,
         small_grid(step_kernel(tandem("1,2,4,8", 5, beside="of plain")))),
    Step("bench.wide_tiles", "the same with prompts' products and GELU in one kernel, beside as they are", 35, 12,
         wide_tiles(tandem("32,128", 5, beside="of plain"))),
    Step("bench.invariant", "the same with --batch-invariant, beside without", 40, 12,
         tandem("1,32,128", 3, "--batch-invariant", beside="of plain")),
    Step("bench.processors", "the same with a least length and no repeated trigrams, beside without", 45, 15,
         tandem(BATCHES, 5, "--processors", beside="of plain")),
    Step("bench.tuned", "the same with --gemm-tuning on, beside off", 75, 25, tandem("64,128", 5, "--gemm-tuning", beside="of untuned")),
    Step("bench.f8_cache", "the same with keys and values in 8 bits, beside bf16", 45, 15,
         tandem("64,128", 3, "--kv-cache-dtype", "fp8", beside="of bf16")),
    Step("bench.int8", "the same with int8 weights, beside bf16", 50, 15, tandem("1,32", 3, "--quantization", "int8", beside="of bf16")),
    Step("bench.fp8", "the same with fp8 weights, beside bf16", 50, 15, tandem("1,32", 3, "--quantization", "fp8", beside="of bf16")),
    Step("bench.all_reduce", "sums over all GPUs: NCCL, and the one-shot kernel", 40, 10, all_reduce),
    Step("bench.torch", "PyTorch on the same GPU and work", 120, 30, torch),
    Step("bench.beams", "the same with 4 beams", 60, 20, tandem("8,32", 3, "--beams", "4")),
    Step("bench.model_t5", "a random FLAN-T5-XL is written", 60, 10, make_model_t5),
    Step("bench.t5", "FLAN-T5-XL in bf16, greedy, the same lengths", 60, 20,
         tandem("32,64,128", 3, "--feed-forward-matrices", "3", of=model_t5)),
    Step("bench.online", "tandem serve, Poisson arrivals: TTFT and TPOT", 75, 25, online),
    Step("bench.online_encoders", "the same with --encoder-ranks 1: encoders beside the decoder", 75, 25, online_encoders),
]
