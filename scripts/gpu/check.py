"""Runs the steps of a pack on this machine's GPU and reports them (./run in a pack; scripts/gpu_check run)."""
import argparse
import concurrent.futures
import pathlib
import sys
import time

import check_steps
import device
import plans
import report
import travel

PACK = pathlib.Path(__file__).resolve().parent.parent
NO_GPU = 77
MOST_OF_A_LOG = 20  # lines of a failed step's that are printed


def parse(argv):
    p = argparse.ArgumentParser(prog="gpu_check run", description=__doc__)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_check"), help="folder for results and logs")
    p.add_argument("--plan", choices=sorted(plans.PLANS), default="", help="the first, second or third command of a lease; default: all steps")
    p.add_argument("--time", type=float, help="seconds for everything; what does not fit is not run; default: the plan's, else 530")
    p.add_argument("--steps", default="", help="names or their beginnings, comma-separated; all of the plan when empty")
    p.add_argument("--models", type=pathlib.Path, help="repository with the goldens; default: the pack, or the folder one stands in")
    p.add_argument("--scratch", type=pathlib.Path, help="folder that is kept, for the models and choices of the next plan")
    p.add_argument("--list", action="store_true", help="print the names of the steps")
    p.add_argument("--dry-run", action="store_true", help="print the plan, what travels, and times; run nothing")
    p.add_argument("--pack", type=pathlib.Path, help="with --dry-run: the packed file")
    p.add_argument("--plugin", type=pathlib.Path,
                   help="another plugin, such as an emulated one: tries this program, and says nothing of a GPU")
    p.add_argument("--device", choices=["gpu", "cpu"], default="gpu", help="cpu: tries this program as well")
    args = p.parse_args(argv)
    args.steps = [s for s in args.steps.split(",") if s]
    if args.time is None:
        args.time = plans.seconds_of(args.plan) if args.plan else 530
    if args.models is None:
        args.models = PACK if (PACK / check_steps.TINY).is_dir() else pathlib.Path.cwd()
    return args


def dry_run(args):
    """What would be run, in which time, and what travels for it."""
    for plan in [args.plan] if args.plan else sorted(plans.PLANS):
        steps = plans.chosen(plan, args.steps)
        seconds = plans.seconds_of(plan)
        rows = [{"step": s.name, "at most, s": s.limit, "kept for it, s": s.least, "what": s.about} for s in steps]
        groups = plans.together(steps)
        most = sum(max(s.limit for s in group) for group in groups)
        print(f"plan {plan}: {seconds} s; kept for its steps {plans.kept_for(groups)} s, at most {most} s\n")
        print(report.table(rows) + "\n")
    tree = travel.tree_bytes(pathlib.Path.cwd(), [args.pack] if args.pack else [])
    if args.pack:
        print(travel.verdict(tree, args.pack.stat().st_size)[1])
    else:
        rest = f"; a pack beside it may have {travel.mib(travel.LIMIT - tree)}" if tree is not None else ""
        print(f"the repository {travel.mib(tree)}{rest}" if tree is not None else "this folder is no repository")
    return 0


def run_step(step, limit, shared):
    """What became of it: status, seconds, figures, why."""
    if limit < min(step.least, step.limit):
        return {"status": "not run", "why": "no time left"}
    run = shared.of(step.name, limit)
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
    finally:
        run.close_log()
    result["seconds"] = round(time.monotonic() - start, 2)
    result["log"] = f"{step.name}.log"
    return result


def run_together(group, later, shared, end):
    """Each step of the group with its result, as they end."""
    left = end - time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(group)) as pool:
        running = {pool.submit(run_step, s, plans.limit_of(s, later, left), shared): s for s in group}
        for done in concurrent.futures.as_completed(running):
            yield running[done], done.result()


def tell(step, result, log):
    print(f"{result['status']:8} {step.name}  {result.get('seconds', 0):.1f} s  {result.get('why', '')}", flush=True)
    if result["status"] == "failed" and log.exists():
        lines = log.read_text(errors="replace").splitlines()[-MOST_OF_A_LOG:]
        print("".join(f"  | {line[:200]}\n" for line in lines), end="", flush=True)


def main(argv):
    args = parse(argv)
    if args.dry_run:
        return dry_run(args)
    steps = plans.chosen(args.plan, args.steps)
    if args.list:
        print("\n".join(f"{s.name:26} {s.about}" for s in steps))
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
    run = check_steps.Run(PACK, args.models.resolve(), args.plugin, about, args.scratch)
    try:
        groups = plans.together(steps) if run.gpu else [[s] for s in steps]
        for i, group in enumerate(groups):
            for step, result in run_together(group, groups[i + 1:], run, end):
                tell(step, result, run.logs / f"{step.name}.log")
                results.add(step, result)
                results.write(run.logs)  # as far as it came, should this program be stopped
    finally:
        run.close()
    print(results.brief())
    print(f"{results.count('passed')} passed, {results.count('failed')} failed, {results.count('not run')} not run: "
          f"{args.out / 'gpu_check.md'}")
    return 1 if results.count("failed") or not results.count("passed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
