"""What is run in which order: two plans for a machine that is borrowed for a quarter of an hour, the most valuable first."""
import benchmark_steps
import check_steps
import fault_steps
import op_steps
import sanitizer_steps

STEPS = {s.name: s for s in check_steps.STEPS + fault_steps.STEPS + op_steps.STEPS + benchmark_steps.STEPS + sanitizer_steps.STEPS}

# Seconds for a plan, and its steps. Whatever a step takes, the `least` of those behind it stays for them.
PLANS = {
    "a": (380, ["libraries", "bench.model", "sanitizer.small.memcheck", "kernels", "goldens.engine", "goldens.float32.two",
                "goldens.overlapped", "kernels.overlapped", "ops.ceilings", "bench.greedy", "bench.independent", "bench.library",
                "bench.heads_apart", "bench.processors", "bench.tuned", "bench.clusters", "ops.step_kernel", "bench.step_kernel",
                "ops.encoder_products", "bench.wide_tiles", "bench.f8_cache", "ops.products", "ops.clusters", "ops.attention", "ops.others", "ops.overlapped", "ops.profiled", "ops.profiled_prompts"]),
    "b": (400, ["bench.model", "bench.model_t5", "goldens.float32", "goldens.drafts", "goldens.encoders", "goldens.invariant",
                "goldens.bfloat16", "goldens.float16", "goldens.tuned", "ranks.1",
                "ranks.2", "ranks.4", "faults.rank_killed", "sanitizer.small.racecheck", "sanitizer.memcheck", "sanitizer.initcheck",
                "sanitizer.synccheck", "sanitizer.racecheck", "bench.greedy", "bench.beams", "bench.t5", "bench.int8", "bench.fp8", "bench.invariant",
                "bench.online", "bench.online_encoders", "bench.torch", "bench.all_reduce"]),
}


def chosen(plan, names):
    """The steps of a plan in its order (of all plans, where it is ""); of these, where there are names, those that begin so."""
    wanted = PLANS[plan][1] if plan else dict.fromkeys(name for _, steps in PLANS.values() for name in steps)
    return [STEPS[n] for n in wanted if not names or any(n.startswith(s) for s in names)]


def measures(step):
    """Whether nothing may run beside it."""
    return step.name.split(".")[0] in ("bench", "ops") and not step.name.startswith("bench.model")


def together(steps):
    """The steps in their order, as lists: checks that follow each other run side by side, a measurement alone."""
    groups = []
    for step in steps:
        if groups and not measures(step) and not measures(groups[-1][-1]):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def seconds_of(plan):
    return PLANS[plan][0] if plan else sum(seconds for seconds, _ in PLANS.values())


def kept_for(groups):
    """Seconds that the groups need at least: of steps that run side by side, the longest's."""
    return sum(max(s.least for s in group) for group in groups)


def limit_of(step, later, left):
    """Seconds that a step may take of those left: what the later groups need at least stays, of as many of them as fit behind it."""
    fitting = [later[:i] for i in range(len(later), -1, -1)]
    kept = next((kept_for(groups) for groups in fitting if kept_for(groups) + step.least <= left), 0)
    return min(step.limit, left - kept)
