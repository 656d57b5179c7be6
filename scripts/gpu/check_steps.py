"""The checks: kernels, goldens, ranks, faults. Each step's body(run) returns its figures."""
import collections
import concurrent.futures
import copy
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

SCORE_TOLERANCE = 2e-3  # on HuggingFace's sequences_scores, fp32
# Of 16-bit types: least share of tokens that are HuggingFace's fp32 ones up to the first that differs. The checkpoints
# are random, with leads of 0.001 between tokens; more than rounding is amiss below this.
LEAST_EQUAL = {"float16": 0.6, "bfloat16": 0.25}
TINY = "tests/data/goldens/bart-tiny"
GOLDENS = [TINY, "tests/data/goldens/bart-odd-heads", "tests/data/goldens/bart-base-shape", "examples/demo-model"]
# Checks share a GPU: none takes the share of its memory that a server would. (Measurements have it for themselves.)
SMALL_CACHE = ["--num-gpu-blocks-override", "4000"]

Step = collections.namedtuple("Step", "name about limit least body")


class NotRun(Exception):
    """The machine lacks what the step needs."""


class Failed(Exception):
    def __init__(self, why, figures=None):
        super().__init__(why)
        self.figures = figures or {}


class TooLong(Failed):
    """The step's time is up; `output` is what the process said until then."""

    def __init__(self, output):
        super().__init__("it took too long and was ended")
        self.output = output


class Run:
    """What steps share: the pack, processes in its environment; and, of a copy (`of`), one step's log and time limit."""

    def __init__(self, pack, models, plugin, about, kept=None):
        self.pack, self.models, self.about, self.plugin = pack, models, about, plugin
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check."))
        self.logs = self.scratch / "logs"
        self.logs.mkdir()
        self.kept = kept.resolve() if kept else self.scratch  # for the next run
        self.kept.mkdir(parents=True, exist_ok=True)
        self.gpu = about["kind"] == "gpu"
        self.device = "cpu" if about["kind"] == "cpu" else "cuda:0"
        self.log = None
        self.end = 0
        self.shared = {}  # of one step for later ones
        self.processes = []
        self.libraries = os.pathsep.join([str(pack / "lib"), *about["library_folders"],
                                          *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        self.environment = dict(
            os.environ, PATH=f"{pack / 'bin'}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}",
            TANDEM_TEST_ROOT=str(models), XDG_RUNTIME_DIR=str(self.scratch), HOME=str(self.scratch),
            XDG_CACHE_HOME=str(self.kept / "cache"),
            # Two ranks on one GPU: as hosts of their own, which talk over lo (bin/rank).
            NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo", NCCL_MNNVL_ENABLE="0", NCCL_CUMEM_ENABLE="0")
        # An emulated device takes minutes to record steps.
        self.at_start = ["--cudagraph-capture-sizes", "0"] if about["kind"] == "emulated" else []
        if plugin is not None:
            self.environment["TANDEM_CUDA_PLUGIN"] = str(plugin.resolve())

    def of(self, name, limit):
        """For a step, or a part of one, that may run beside others."""
        own = copy.copy(self)
        own.name = name
        own.log = open(self.logs / f"{name}.log", "w")
        own.end = time.monotonic() + limit
        own.environment = dict(self.environment)
        return own

    def close_log(self):
        self.log.close()

    def close(self):
        for process in self.processes:  # where a step was interrupted
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def left(self):
        return max(0.1, self.end - time.monotonic())

    def cases(self, folder):
        """Goldens that generate. An emulated device tries only some: it takes a thousand times as long."""
        golden = json.loads((folder / "golden.json").read_text())
        cases = [c for c in golden["cases"] if "output_ids" in c and "encoder_ids" in c]
        return cases if self.about["kind"] != "emulated" else cases[:4] + [c for c in cases if "sequences" in c][:2]

    def need_gpu(self):
        if self.about["kind"] != "gpu":
            raise NotRun("no GPU")

    def need_processes(self):
        if self.about["kind"] == "emulated":
            raise NotRun("emulated groups are of one process")

    def as_processes(self, size):
        """Flags for a group of so many processes."""
        return ["--tensor-parallel-size", str(size), "--worker-program", str(self.pack / "bin/rank")]

    def start(self, command, ours=True, extra=None, **options):
        """A process with its errors in the log, and its group to itself. Our programs see the pack's libraries."""
        command = [str(c) for c in command]
        if ours:
            command = ["env", f"LD_LIBRARY_PATH={self.libraries}", *command]
        self.log.write("$ " + " ".join(command) + "\n")
        self.log.flush()
        environment = dict(self.environment if ours else os.environ, **(extra or {}))
        process = subprocess.Popen(command, env=environment, stderr=self.log, text=True, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def wait(self, process, given=None):
        """(status, output); kills it at the step's limit."""
        try:
            output, _ = process.communicate(given, timeout=self.left())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            self.log.write(output or "")
            raise TooLong(output or "")
        self.log.write(output or "")
        self.log.flush()
        return process.returncode, output

    def call(self, command, given=None, **options):
        stdin = subprocess.PIPE if given is not None else subprocess.DEVNULL
        return self.wait(self.start(command, stdin=stdin, stdout=subprocess.PIPE, **options), given)

    def tandem(self, *arguments, given=None):
        return self.call([self.pack / "bin/tandem", *arguments], given)


# --- programs of tests -------------------------------------------------------------------------------------------------


def libraries(run):
    missing = {}
    for program in sorted((run.pack / "bin").iterdir()):
        status, text = run.call(["ldd", program])
        lost = [line.split()[0] for line in text.splitlines() if "not found" in line]
        if lost:
            missing[program.name] = lost
    if missing:
        raise Failed("libraries are missing: " + "; ".join(f"{p}: {' '.join(m)}" for p, m in missing.items()))
    if run.about.get("missing_libraries"):
        raise Failed("not found: " + " ".join(run.about["missing_libraries"]))
    status, text = run.tandem("--version")
    if status != 0:
        raise Failed(f"tandem --version: status {status}")
    return {"version": text.strip().splitlines()[0]}


def google_test(run, program, before=(), arguments=(), extra=None):
    report = run.scratch / f"{run.name}.json"
    report.unlink(missing_ok=True)
    status, _ = run.call([*before, run.pack / "bin" / program, f"--gtest_output=json:{report}", "--gtest_color=no", *arguments], extra=extra)
    tests, bad, skipped = 0, [], 0
    if report.exists():
        for suite in json.loads(report.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                tests += test["status"] == "RUN"
                skipped += test.get("result") == "SKIPPED"
                if test.get("failures"):
                    bad.append(f"{suite['name']}.{test['name']}")
    figures = {"tests": tests, "skipped": skipped, "failed": len(bad)}
    if bad or status != 0 or tests == 0:
        raise Failed((", ".join(bad) if bad else f"{program}: status {status}, after {tests} tests"), figures)
    return figures


def shard(run, program, arguments, i, shards):
    """(figures, what is wrong or ""): of one part of a test program."""
    of = run.of(f"{run.name}.{i}", run.left())
    try:
        figures = google_test(of, program, arguments=arguments,
                              extra={"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(i)})
        return figures, ""
    except TooLong as e:
        begun = [line.split()[-1] for line in e.output.splitlines() if line.startswith("[ RUN ")]
        return {"ran out of time": 1, "tests": max(len(begun) - 1, 0)}, f"shard {i}: its time was up in {begun[-1] if begun else 'nothing'}"
    except Failed as e:
        return e.figures, f"shard {i}: {e}"
    finally:
        of.close_log()


def in_shards(run, program, shards, arguments=()):
    """A test program in several processes side by side: what hangs, or is too slow, costs its own part."""
    figures, wrong = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        for found, why in pool.map(lambda i: shard(run, program, arguments, i, shards), range(shards)):
            figures.update(found)
            wrong += [why] if why else []
    for i in range(shards):
        run.log.write((run.logs / f"{run.name}.{i}.log").read_text(errors="replace"))
    if wrong:
        raise Failed("; ".join(wrong), dict(figures))
    return dict(figures)


def kernels(run):
    run.need_gpu()
    return in_shards(run, "cuda_test", 4)


def engine_goldens(run):
    if run.about["kind"] == "cpu":
        raise NotRun("no GPU")
    if run.about["kind"] != "gpu":
        return google_test(run, "device_test", arguments=["--gtest_filter=*odd_heads*"])
    # (The program that reads images does not travel.)
    there = (run.pack / "bin/tandem-decoder").exists()
    return in_shards(run, "device_test", 6, [] if there else ["--gtest_filter=-*FramesOnDevices.Images*"])


def setting(variable, value="1"):
    """What makes a step of another, run with that variable at that value."""
    def of(body):
        def with_setting(run):  # (the environment is the step's own)
            run.environment[variable] = value
            return body(run)
        return with_setting
    return of


overlapped, independent = setting("TANDEM_DEPENDENT_LAUNCH"), setting("TANDEM_DEPENDENT_LAUNCH", "0")  # docs/gpu.md


# --- HuggingFace's goldens through the program ----------------------------------------------------------------------------


def as_request(case):
    prompt = {"prompt_token_ids": case["encoder_ids"]}
    if "decoder_prompt_ids" in case:
        prompt = {"encoder_prompt": prompt, "decoder_prompt": {"prompt_token_ids": case["decoder_prompt_ids"]}}
    return {"id": case["name"], "prompt": prompt, "params": case["generation"]}


def unpadded(ids, pad):
    while len(ids) > 1 and ids[-1] == pad:
        ids = ids[:-1]
    return ids


def compare(case, row, pad):
    """(tokens that are equal up to the first that differs, tokens wanted, what differs or "")."""
    want = [unpadded(s, pad) for s in case.get("sequences") or [case["output_ids"]]]
    total = sum(map(len, want))
    if row is None or "error" in row:
        return 0, total, "no answer" if row is None else str(row["error"].get("message"))
    got = [unpadded(row["prompt_token_ids"] + o["token_ids"], pad) for o in row["outputs"]]
    equal, why = 0, ""
    for k, w in enumerate(want):
        g = got[k] if k < len(got) else []
        same = next((i for i, (a, b) in enumerate(zip(g, w)) if a != b), min(len(g), len(w)))
        equal += same
        if g != w and not why:
            why = f"sequence {k} differs at {same}"
    for k, w in enumerate(case.get("sequences_scores") or []):
        score = row["outputs"][k].get("score")
        if not why and (score is None or abs(score - w) > SCORE_TOLERANCE):
            why = f"score {score} instead of {w}"
    return equal, total, why


def judge(run, folder, text):
    """Of one checkpoint's answers: cases, share of equal tokens, what differs."""
    pad = json.loads((folder / "config.json").read_text()).get("pad_token_id")
    rows = {}
    for line in text.splitlines():
        try:
            row = json.loads(line)
            rows[row.get("id")] = row
        except ValueError:
            run.log.write(f"not JSON: {line[:200]}\n")
    cases, equal, total, bad = run.cases(folder), 0, 0, []
    for case in cases:
        e, t, why = compare(case, rows.get(case["name"]), pad)
        equal, total = equal + e, total + t
        if why:
            bad.append(f"{case['name']}: {why}")
    return {"checkpoint": folder.name, "cases": len(cases), "exact": len(cases) - len(bad), "equal tokens": equal / total}, bad


def generated(run, folder, *arguments):
    """(status, output): of `tandem generate` for all cases of a checkpoint."""
    lines = "".join(json.dumps(as_request(c)) + "\n" for c in run.cases(folder))
    return run.tandem("generate", "--jsonl", "--model", folder, "--input", "-", *SMALL_CACHE, *run.at_start, *arguments, given=lines)


def generate(run, name, *arguments):
    folder = run.models / name
    status, text = generated(run, folder, *arguments)
    figures, bad = judge(run, folder, text)
    if status != 0:
        bad.insert(0, f"tandem ended with status {status}")
    return figures, bad


def goldens(dtype, *arguments, only=None):
    def body(run):
        if dtype == "float16" and run.about["kind"] == "cpu":
            raise NotRun("the CPU has no float16")
        rows, wrong = [], []
        least = LEAST_EQUAL.get(dtype)
        for name in (only or GOLDENS) if run.about["kind"] == "gpu" else [TINY]:
            figures, bad = generate(run, name, "--device", run.device, "--dtype", dtype, *arguments)
            rows.append(figures)
            run.log.write("\n".join(bad) + "\n")
            lost = [b for b in bad if "differs" not in b and "score" not in b]
            if bad and (least is None or lost or figures["equal tokens"] < least):
                wrong.append(f"{figures['checkpoint']}: {len(bad)} of {figures['cases']} ({(lost or bad)[0]})")
        figures = {"exact": sum(r["exact"] for r in rows), "cases": sum(r["cases"] for r in rows),
                   "equal tokens": sum(r["equal tokens"] for r in rows) / len(rows), "rows": rows}
        if wrong:
            raise Failed("; ".join(wrong), figures)
        return figures
    return body


def tuned(run):
    """Measured in the first run; the second one finds the file."""
    return [goldens("float32", "--gemm-tuning", "on")(run) for _ in range(2)][1]


def ranks(size):
    def body(run):
        flags = ["--tensor-parallel-size", str(size)]
        if run.about["kind"] == "emulated":
            flags += ["--distributed-executor-backend", "threads"]
        elif size > 1:
            flags = run.as_processes(size)
        return goldens("float32", *flags, only=[TINY])(run)
    return body


def drafted(run):
    """Drafts that are looked up, and those of a draft model, which is the model itself."""
    looked_up = goldens("float32", "--num-speculative-tokens", "4")(run)
    of_model = goldens("float32", "--draft-model", str(run.models / TINY), only=[TINY])(run)
    return {"exact": looked_up["exact"] + of_model["exact"], "cases": looked_up["cases"] + of_model["cases"],
            "rows": looked_up["rows"] + of_model["rows"]}


def answers(run, name, *arguments):
    """What the program says to a checkpoint's cases in bf16, by case: tokens, scores."""
    status, text = generated(run, run.models / name, "--device", run.device, "--dtype", "bfloat16", *arguments)
    if status != 0:
        raise Failed(f"tandem ended with status {status}")
    rows = map(json.loads, filter(None, text.splitlines()))
    return {row["id"]: [(o["token_ids"], o.get("score"), o.get("cumulative_logprob")) for o in row["outputs"]] for row in rows}


def invariant(run):
    """--batch-invariant: a request's answer, bit for bit, beside a few others and beside all."""
    rows = []
    for name in [TINY, "examples/demo-model"] if run.about["kind"] == "gpu" else [TINY]:
        together = answers(run, name, "--batch-invariant")
        few = answers(run, name, "--batch-invariant", "--max-num-seqs", "8", "--max-num-batched-tokens", "600")
        rows.append({"checkpoint": name, "cases": len(few), "equal": sum(together[case] == few[case] for case in few)})
    if any(row["equal"] < row["cases"] for row in rows):
        raise Failed("answers depend on the batch", {"rows": rows})
    return {"rows": rows}


STEPS = [
    Step("libraries", "every program and the plugin find all their libraries", 30, 1, libraries),
    Step("kernels", "every kernel against its reference over odd shapes (cuda_test)", 100, 15, kernels),
    Step("goldens.engine", "HuggingFace's tokens through the engine, fp32, recorded and eager steps (device_test)", 100, 10, engine_goldens),
    Step("kernels.overlapped", "cuda_test with dependent launches", 100, 15, overlapped(kernels)),
    Step("goldens.overlapped", "device_test with dependent launches", 100, 10, overlapped(engine_goldens)),
    Step("goldens.float32.two", "HuggingFace's tokens through tandem generate, fp32, a tiny model and the demo: exact", 40, 10,
         goldens("float32", only=[TINY, "examples/demo-model"])),
    Step("goldens.float32", "HuggingFace's tokens through tandem generate, fp32: exact", 60, 10, goldens("float32")),
    Step("goldens.tuned", "the same in fp32 with --gemm-tuning on, which measures, and again with what it kept: exact", 90, 10, tuned),
    Step("goldens.drafts", "the same in fp32 with drafts, looked up and by a draft model: exact", 90, 10, drafted),
    Step("goldens.encoders", "the same in fp32 with --encoder-ranks 1, on the decoder's GPU where there is one: exact", 60, 10,
         goldens("float32", "--encoder-ranks", "1")),
    Step("goldens.invariant", "bf16 with --batch-invariant: the same bits in small batches and in one", 60, 10, invariant),
    Step("goldens.bfloat16", "the same in bf16: most tokens", 60, 10, goldens("bfloat16")),
    Step("goldens.float16", "the same in fp16: most tokens", 60, 10, goldens("float16")),
    Step("ranks.1", "fp32 goldens, one rank", 60, 10, ranks(1)),
    Step("ranks.2", "fp32 goldens on two ranks of one GPU, NCCL over sockets: exact", 60, 10, ranks(2)),
    Step("ranks.4", "fp32 goldens on four ranks of one GPU", 90, 10, ranks(4)),
]
