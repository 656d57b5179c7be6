"""compute-sanitizer over the kernels' tests: slow, so it gets what time the others leave."""
from benchmark_steps import measure
from check_steps import Failed, NotRun, Step, google_test

# Libraries' kernels are not ours to check; where tests of ours have some, racecheck looks at names (kns: a part of them).
CHECKED = "-CudaLinear.*:CudaBackend.CopiesInAndOut:*DeathTest*"
# Initcheck and synccheck are slow, and look at what tests of small sizes show as well.
SOME = "CudaAttention*:CudaNorm*:CudaSelect*:CudaDraw*:CudaLinearBest*:-*DeathTest*:*Large*"


def sanitizer_command(run, tool, arguments):
    run.need_gpu()
    path = run.about["tools"]["compute-sanitizer"]
    if not path:
        raise NotRun("there is no compute-sanitizer")
    # (Calls that fail are ours to see, but for those by which libraries ask the driver what it has.)
    return [path, "--tool", tool, "--error-exitcode", "86", "--print-limit", "20", "--report-api-errors", "no", *arguments]


def sanitizer(tool, tests, *arguments):
    def body(run):
        return google_test(run, "cuda_test", sanitizer_command(run, tool, arguments), [f"--gtest_filter={tests}"])
    return body


def small_model(tool, *arguments):
    """Whole steps, recorded and eager, of a tiny model."""
    def body(run):
        command = sanitizer_command(run, tool, arguments)
        status, _ = run.call([run.pack / "bin/make_random_bart", "--out", run.scratch / f"{run.name}-bart", "--size", "tiny"])
        if status != 0:
            raise Failed(f"make_random_bart: status {status}")
        batches = {}
        for eager in ([], ["--enforce-eager"]):
            status, rows = measure(run, [*command, run.pack / "bin/bench_gpu", "--model", run.scratch / f"{run.name}-bart", "--device", run.device,
                                         "--batch", "2,12", "--repeat", "1", "--least-source", "20", "--most-source", "90",
                                         "--new-tokens", "8", *eager])
            if status != 0 or not rows:
                raise Failed(f"{tool}: status {status}")
            batches["eager" if eager else "recorded"] = len(rows)
        return batches
    return body


STEPS = [
    Step("sanitizer.small.memcheck", "compute-sanitizer memcheck over steps of a tiny model", 100, 15, small_model("memcheck")),
    Step("sanitizer.small.racecheck", "compute-sanitizer racecheck over steps of a tiny model", 60, 15,
         small_model("racecheck", "--racecheck-report", "all", "--kernel-name", "kns=tandem")),
    Step("sanitizer.memcheck", "compute-sanitizer memcheck over the kernels' tests", 100, 20, sanitizer("memcheck", CHECKED)),
    Step("sanitizer.initcheck", "compute-sanitizer initcheck over some of the kernels' tests", 60, 15, sanitizer("initcheck", SOME)),
    Step("sanitizer.synccheck", "compute-sanitizer synccheck over some of the kernels' tests", 60, 15, sanitizer("synccheck", SOME)),
    Step("sanitizer.racecheck", "compute-sanitizer racecheck over the kernels' tests", 100, 20, sanitizer("racecheck", CHECKED, "--racecheck-report", "all", "--kernel-name", "kns=tandem")),
]
