#!/usr/bin/env python3
"""Scaling over 1, 2 and 4 ranks, measured and predicted.

    scaling.py [--out scaling] [--repeat 3] [--model DIR]     measures, fits, predicts, draws
    scaling.py --resume [--out scaling]                       goes on with OUT.jsonl
    scaling.py --read scaling.jsonl [--out scaling]           fits and draws without measuring

Runs build/bin/bench_scaling for every layout of tensor, pipeline and data parallelism, with ranks as threads and as
processes, strong (one batch) and weak (a batch for each rank). cost_model.py is fitted on some runs of one and two ranks
and predicts the others. Writes OUT.jsonl (every step), OUT.md (tables), OUT.svg and OUT.predicted.svg.
"""
import argparse, datetime, itertools, json, os, pathlib, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import cost_model, report  # noqa: E402

LAYOUTS = ("1", "tp2", "pp2", "dp2", "tp4", "pp4", "dp4", "tp2pp2", "tp2dp2", "pp2dp2")
# Sets of runs: flags, and layouts. The last two are for the fit.
SETS = {
    "all": ([], LAYOUTS, ("threads", "processes"), ("strong", "weak")),
    "shapes": (["--batch", "4", "--weak-batch", "32", "--source-tokens", "96", "--new-tokens", "16"], ("1",), ("threads",),
               ("strong", "weak")),
    "one core": (["--cores", "1", "--new-tokens", "24"], ("tp2", "dp2"), ("threads", "processes"), ("strong",)),
}


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where bench_scaling is")
    p.add_argument("--model", type=pathlib.Path, help="a BART; default: the random one of bench_scaling")
    p.add_argument("--pipeline-layers", nargs="+", default=["11,3", "9,2,2,1"], help="of two stages, of four")
    p.add_argument("--repeat", type=int, default=3,
                   help="runs of each layout in which other processes had at most 3 %% of the cores; medians count")
    p.add_argument("--rounds", type=int, default=2, help="batches of a run")
    p.add_argument("--new-tokens", type=int, default=24)
    p.add_argument("--budget", type=float, default=1500, help="seconds of measuring at most")
    p.add_argument("--resume", action="store_true", help="the runs of OUT.jsonl count")
    p.add_argument("--read", type=pathlib.Path, nargs="+", help="figures of earlier runs")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("scaling"))
    return p.parse_args(argv)


def key_of(run):
    return run["set"], run["layout"], run["ranks_are"], run["scaling"]


def wanted_runs(args):
    return {(name, *case): args.repeat for name, (_, *lists) in SETS.items() for case in itertools.product(*lists)}


def measure(args, before=()):
    """Runs every case in turns, until it has as many runs as wanted in which others left the cores alone, or the time is
    over. Yields runs as bench_scaling tells them, with the number of cores."""
    bench, end = str(args.bin / "bench_scaling"), time.monotonic() + args.budget
    wanted = wanted_runs(args)
    done = dict.fromkeys(wanted, 0)
    for run in before:
        done[key_of(run)] += 1
        wanted[key_of(run)] -= run["others"] <= cost_model.QUIET
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or pathlib.Path(folder)
        if not args.model:
            subprocess.run([bench, "--make", folder], check=True)
        while left := [key for key in wanted if wanted[key] > 0]:
            if time.monotonic() > end:
                return
            key = min(left, key=done.get)
            name, layout, are, scaling = key
            command = [bench, "--json", "--repeat", "1", "--rounds", str(args.rounds), "--model", str(model),
                       "--pipeline-layers", *args.pipeline_layers, "--layouts", layout, "--ranks-are", are,
                       "--scaling", scaling, *(SETS[name][0] or ["--new-tokens", str(args.new_tokens)])]
            run = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            run["set"], run["cores"] = name, 1 if name == "one core" else os.cpu_count()
            done[key] += 1
            wanted[key] -= run["others"] <= cost_model.QUIET
            yield run


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def main(argv):
    args = parse(argv)
    own = args.out.with_suffix(".jsonl")
    read = args.read or ([own] if args.resume and own.exists() else [])
    runs = [json.loads(line) for path in read for line in open(path)]
    if not args.read:
        with open(own, "a" if args.resume else "w") as file:
            for run in measure(args, list(runs)):
                runs.append(run)
                file.write(json.dumps(run) + "\n")
                file.flush()
    if {key_of(run) for run in runs} != set(wanted_runs(args)):
        sys.exit(f"scaling: the time was too short for all runs; {args.out}.jsonl has some, and --resume goes on")
    cases = cost_model.cases_of(runs)
    model = cost_model.fit(cases)
    for case in cases:
        case.predicted = model.predict(case)
    head = f"{processor()}, {os.cpu_count()} cores, {datetime.date.today()}"
    text = report.markdown(head, model, cases)
    args.out.with_suffix(".md").write_text(text)
    args.out.with_suffix(".svg").write_text(report.scaling(cases))
    args.out.with_suffix(".predicted.svg").write_text(report.predicted(cases))
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
