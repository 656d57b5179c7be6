"""What is run in which order: three plans for a machine that is borrowed for half an hour, the most valuable first."""
import benchmark_steps
import check_steps
import fault_steps
import op_steps
import sanitizer_steps

STEPS = {s.name: s for s in check_steps.STEPS + fault_steps.STEPS + op_steps.STEPS + benchmark_steps.STEPS + sanitizer_steps.STEPS}

# Seconds for a plan, and its steps. Whatever a step takes, the `least` of those behind it stays for them.
PLANS = {
    "a": (280, ["libraries", "ops.ceilings", "bench.model", "sanitizer.small.memcheck", "kernels", "goldens.engine", "goldens.float32.two",
                "bench.greedy", "bench.overlapped", "goldens.overlapped"]),
    "b": (480, ["ops.ceilings", "bench.model", "ops.products", "ops.attention", "ops.bulk", "ops.others", "ops.overlapped", "ops.profiled",
                "bench.tuned", "bench.norms_apart", "bench.norms_fused", "bench.heads_apart", "bench.heads_fused", "bench.bulk",
                "bench.f8_cache", "goldens.bulk", "sanitizer.small.racecheck", "kernels.overlapped"]),
    "c": (570, ["bench.model", "bench.greedy", "goldens.float32", "goldens.bfloat16", "goldens.float16", "goldens.tuned", "bench.beams",
                "bench.int8", "bench.fp8", "bench.online", "ranks.1", "ranks.2", "ranks.4", "faults.rank_killed", "bench.all_reduce",
                "sanitizer.memcheck", "sanitizer.initcheck", "sanitizer.synccheck", "sanitizer.racecheck", "bench.torch"]),
}


def chosen(plan, names):
    """The steps of a plan in its order (of all plans, where it is ""); of these, where there are names, those that begin so."""
    wanted = PLANS[plan][1] if plan else dict.fromkeys(name for _, steps in PLANS.values() for name in steps)
    return [STEPS[n] for n in wanted if not names or any(n.startswith(s) for s in names)]


def seconds_of(plan):
    return PLANS[plan][0] if plan else sum(seconds for seconds, _ in PLANS.values())


def limit_of(step, later, left):
    """Seconds that a step may take of those left: the least of each later step stays."""
    return min(step.limit, left - sum(s.least for s in later))
