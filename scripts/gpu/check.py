"""Runs the steps of a pack on this machine's GPU and reports them (./run in a pack; scripts/gpu_check run)."""
import argparse
import pathlib
import sys
import time

import benchmark_steps
import check_steps
import device
import report
import sanitizer_steps

PACK = pathlib.Path(__file__).resolve().parent.parent
NO_GPU = 77


def parse(argv):
    p = argparse.ArgumentParser(prog="gpu_check run", description=__doc__)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_check"), help="folder for results and logs")
    p.add_argument("--time", type=float, default=530, help="seconds for everything; what does not fit is not run")
    p.add_argument("--steps", default="", help="names or their beginnings, comma-separated; all when empty")
    p.add_argument("--models", type=pathlib.Path, default=PACK, help="repository with the goldens, for a pack without them")
    p.add_argument("--list", action="store_true", help="print the names of the steps")
    p.add_argument("--plugin", type=pathlib.Path,
                   help="another plugin, such as an emulated one: tries this program, and says nothing of a GPU")
    p.add_argument("--device", choices=["gpu", "cpu"], default="gpu", help="cpu: tries this program as well")
    args = p.parse_args(argv)
    args.steps = [s for s in args.steps.split(",") if s]
    return args


def chosen(step, args):
    return not args.steps or any(step.name.startswith(s) for s in args.steps)


def run_step(step, run, end):
    """What became of it: status, seconds, figures, why."""
    limit = min(step.limit, end - time.monotonic())
    if limit < min(step.least, step.limit):
        return {"status": "not run", "why": "no time left"}
    run.begin(step.name, limit)
    start = time.monotonic()
    try:
        figures = step.body(run) or {}
        result = {"status": "passed", "figures": figures}
    except check_steps.NotRun as e:
        result = {"status": "not run", "why": str(e)}
    except check_steps.Failed as e:
        result = {"status": "failed", "why": str(e), "figures": e.figures}
    except Exception as e:  # a bug of a step is a failure of that step alone
        result = {"status": "failed", "why": f"{type(e).__name__}: {e}"}
    result["seconds"] = round(time.monotonic() - start, 2)
    result["log"] = run.log.name
    return result


def main(argv):
    args = parse(argv)
    steps = [s for s in check_steps.STEPS + benchmark_steps.STEPS + sanitizer_steps.STEPS if chosen(s, args)]
    if args.list:
        print("\n".join(f"{s.name:24} {s.about}" for s in steps))
        return 0
    if not steps:
        print(f"gpu_check: no step is called so: {','.join(args.steps)}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    about = device.look(PACK, args.plugin, args.device)
    results = report.Results(args.out, about)
    if about["problem"]:
        print(f"gpu_check: no GPU, nothing is run: {about['problem']}", file=sys.stderr)
        for step in steps:
            results.add(step, {"status": "not run", "why": "no GPU"})
        results.write()
        return NO_GPU
    print(f"on {about['name']}, driver {about['driver']}", flush=True)
    end = time.monotonic() + args.time
    run = check_steps.Run(PACK, args.models.resolve(), args.out.resolve(), args.plugin, about)
    try:
        for step in steps:
            result = run_step(step, run, end)
            print(f"{result['status']:8} {step.name}  {result.get('seconds', 0):.1f} s  {result.get('why', '')}", flush=True)
            results.add(step, result)
            results.write()  # as far as it came, should this program be stopped
    finally:
        run.close()
    print(f"{results.count('passed')} passed, {results.count('failed')} failed, {results.count('not run')} not run: "
          f"{args.out / 'gpu_check.md'}")
    return 1 if results.count("failed") or not results.count("passed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
