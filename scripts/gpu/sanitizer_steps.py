"""compute-sanitizer over the kernels' tests: slow, so it gets what time the others leave."""
from check_steps import NotRun, Step, google_test

# Libraries' kernels are not ours to check; where tests of ours have some, racecheck looks at names (kns: a part of them).
RACED = "-CudaLinear.*:CudaBackend.CopiesInAndOut:*DeathTest*"


def sanitizer(tool, *arguments):
    def body(run):
        run.need_gpu()
        path = run.about["tools"]["compute-sanitizer"]
        if not path:
            raise NotRun("there is no compute-sanitizer")
        # (Calls that fail are ours to see, but for those by which libraries ask the driver what it has.)
        common = ["--tool", tool, "--error-exitcode", "86", "--print-limit", "20", "--report-api-errors", "no"]
        return google_test(run, "cuda_test", [path, *common, *arguments],
                           [f"--gtest_filter={RACED}"])
    return body


STEPS = [
    Step("sanitizer.memcheck", "compute-sanitizer memcheck over the kernels' tests", 100, 20, sanitizer("memcheck")),
    Step("sanitizer.racecheck", "compute-sanitizer racecheck over the kernels' tests", 100, 20, sanitizer("racecheck", "--racecheck-report", "all", "--kernel-name", "kns=tandem")),
]
