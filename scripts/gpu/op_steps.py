"""What the device can do, and a decoder's step op by op (bench_gpu_ops, docs/gpu.md)."""
import csv
import io
import json
import re

from benchmark_steps import SMALL, WIDE_TILES, clusters, ended, measure, model
from check_steps import Failed, NotRun, Step, google_test

TINY = ["--width", "64", "--inner", "128", "--vocabulary", "500", "--heads", "4", "--source", "20", "--generated", "9", "--batch", "1,3",
        "--encoder-rows", "9,600", "--samples", "2", "--rotated-mib", "0.1", "--ceiling-mib", "0.25", "--ceiling-side", "64"]
# A decoder layer of BART's: how often each op is in it.
OF_A_LAYER = {("product", "qkv"): 1, ("product", "out"): 3, ("product", "fc1"): 1, ("product", "fc2"): 1, ("norm", "residual + norm"): 3,
              ("attention", "self"): 1, ("attention", "cross"): 1, ("write_kv", "one key each"): 1}
OF_A_STEP = {("product", "head"): 1, ("select", "greedy"): 1}
BEST = ("product", "head, best")
LAYERS = 12


def bench_ops(run, *parts):
    if run.about["kind"] == "cpu":
        raise NotRun("no GPU")
    status, rows = measure(run, [run.pack / "bin/bench_gpu_ops", *parts, *([] if run.gpu else TINY)])
    if status != 0 or not rows:
        raise Failed(f"bench_gpu_ops: {ended(status)}", {"rows": rows})
    return rows


def ceilings(run):
    """Kept, for the plans that come after."""
    rows = bench_ops(run, "ceilings")
    copy = next(r["copy_gb_per_second"] for r in rows if "copy_gb_per_second" in r)
    product = next(r["tflop_per_second"] for r in rows if r.get("what") == "product")
    launches = {r["what"]: r["us"] for r in rows if r["op"] == "launch"}
    found = {"memory_gb_s": copy, "bf16_tflop_s": product}
    (run.kept / "ceilings.json").write_text(json.dumps(found) + "\n")
    return {**found, **{f"launch, {what}, us": us for what, us in launches.items()}, "rows": rows}


def table(*parts):
    def body(run):
        rows = bench_ops(run, *parts)
        if "--dependent" not in parts:
            run.shared["ops"] = run.shared.get("ops", []) + rows
        return {"rows": rows}
    return body


def summed(rows):
    """Microseconds of a step by the number of rows, where all of its ops are among the rows: with logits, and with the choice in the head."""
    times = {(r["op"], r["what"], r["m"]): r["us"] for r in rows if "m" in r and "us" in r}
    out = []
    for m in sorted({m for _, _, m in times}):
        for what, once in (("with logits", OF_A_STEP), (BEST[1], {BEST: 1})):
            parts = {**{op: LAYERS * n for op, n in OF_A_LAYER.items()}, **once}
            if all((*op, m) in times for op in parts):
                row = {"op": "step, summed", "what": what, "m": m, "us": sum(n * times[(*op, m)] for op, n in parts.items())}
                row.update({f"{op[0]} {op[1]}, us": n * times[(*op, m)] for op, n in parts.items()})
                out.append(row)
    return out


def others(run):
    figures = table("others")(run)
    figures["rows"] += summed(run.shared["ops"])
    return figures


# --- ncu -------------------------------------------------------------------------------------------------------------------

# One pass each, so that no kernel is run twice.
METRICS = ["gpu__time_duration.sum", "dram__bytes.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
           "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread"]


def launches_of(text):
    """Kernels in the order of their launches: name, and each metric as a number."""
    start = text.find('"ID"')
    out = {}
    for row in csv.DictReader(io.StringIO(text[start:])) if start >= 0 else []:
        try:
            one = out.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
            one[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return list(out.values())


def by_kernel(launches):
    rows = {}
    for one in launches:
        name = re.sub(r"\(.*|<.*", "", one["kernel"])[-60:]
        row = rows.setdefault(name, {"kernel": name, "launches": 0, "us": 0.0, "MB": 0.0, "% of memory": 0.0})
        us = one.get(METRICS[0], 0) / 1e3
        row["launches"] += 1
        row["us"] += us
        row["MB"] += one.get(METRICS[1], 0) / 1e6
        row["% of memory"] += us * one.get(METRICS[2], 0)
    for row in rows.values():
        row["% of memory"] /= max(row["us"], 1e-9)
    return sorted(rows.values(), key=lambda r: -r["us"])


def steps_of(launches):
    """The launches of each step, in order: one ends with its answer."""
    out, step = [], []
    for one in launches:
        step.append(one)
        if re.search(r"tell_host", one["kernel"]):
            out.append(step)
            step = []
    return out


def profile(run, batch, *arguments):
    """The steps of one batch as ncu sees them."""
    run.need_gpu()
    ncu = run.about["tools"]["ncu"]
    if not ncu:
        raise NotRun("there is no ncu")
    status, text = run.call([ncu, "--clock-control", "none", "--csv", "--print-units", "base", "--print-kernel-base",
                             "function", "--metrics", ",".join(METRICS), "--target-processes", "all", run.pack / "bin/bench_gpu",
                             "--model", model(run), "--device", run.device, "--enforce-eager", "--batch", str(batch), "--repeat", "1",
                             *arguments])
    steps = steps_of(launches_of(text))
    if status != 0 or not steps:
        raise Failed(f"ncu: status {status}, {len(steps)} steps")
    return steps


def profiled(run):
    rows = []
    for batch in (1, 128):
        steps = profile(run, batch, "--new-tokens", "4", *SMALL[:4])
        rows += [{"batch": batch, **row} for row in by_kernel(steps[-1])]
    return {"rows": rows}


def profiled_prompts(run):
    """The step with the most work: encoder, cross keys and values, first tokens."""
    steps = profile(run, 32, "--new-tokens", "2")
    return {"rows": by_kernel(max(steps, key=lambda step: sum(one.get(METRICS[0], 0) for one in step)))}


def step_kernel(run):
    """Before it is timed: every wait of its blocks ends, and it has the bits of the ops that it stands for."""
    run.need_gpu()
    return google_test(run, "cuda_test", arguments=["--gtest_filter=CudaDecoderStep.*"])


def encoder_products(run):
    """cuBLASLt's product and a kernel for GELU, beside one kernel for both."""
    rows = bench_ops(run, "encoder")
    run.environment.update(WIDE_TILES)
    for row, one in zip(rows, bench_ops(run, "encoder")):
        row.update({"one kernel, us": one["us"], "one kernel, TFLOP/s": one["tflop_per_second"], "of two": row["us"] / one["us"]})
    return {"rows": rows}


STEPS = [
    Step("ops.ceilings", "rates of a copy and of a large product, empty launches, recorded and dependent", 40, 10, ceilings),
    Step("ops.products", "each product of a layer in recordings, by rows", 80, 25, table("products")),
    Step("ops.clusters", "the products of 16 to 128 rows by clusters", 40, 12,
         clusters(lambda run: {"rows": bench_ops(run, "products", "--batch", "16,32,64,128")})),
    Step("ops.step_kernel", "one kernel for a decoder's step: the bits of the ops, on this device", 40, 8, step_kernel),
    Step("ops.encoder_products", "the first product of prompts' feed-forward with GELU: two kernels beside one", 30, 10, encoder_products),
    Step("ops.attention", "attention of a step, and what it writes, by rows", 60, 20, table("attention")),
    Step("ops.others", "norms and selection by rows; all ops of a step added up", 45, 15, others),
    Step("ops.overlapped", "products, norms and selection of few rows with dependent launches", 60, 15,
         table("products", "others", "--dependent", "--batch", "1,8,32,128")),
    Step("ops.profiled", "ncu: the kernels of one step at batch 1 and 128", 90, 25, profiled),
    Step("ops.profiled_prompts", "ncu: the kernels of a step with 32 prompts", 60, 15, profiled_prompts),
]
