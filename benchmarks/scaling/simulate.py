"""The steps of a round on the ranks of a layout: which half of which step runs on which stage when, and how ranks share
the cores. A rank needs a core while it works; if more work than there are cores, all go on equally slowly."""


class Part:
    """A stage's half of a step, on its ranks: they begin together, and it has ended when the last of them has."""

    def __init__(self, times, needs):
        self.left = [1.0] * len(times)  # of each rank's work
        self.times = times              # of each rank: alone, beside others, with cores shared; seconds
        self.missing = len(needs)       # parts that end before
        self.then = []
        for part in needs:
            part.then.append(self)
        self.end = None


def parts_of(case, model):
    parts = []
    for group in range(case.dp):
        made = {}
        for i, shape in enumerate(case.shapes):
            for stage in range(case.pp):
                ranks = [group * case.tp * case.pp + stage * case.tp + k for k in range(case.tp)]
                for half in ("encoder", "decoder"):
                    if half == "encoder" and shape[0] == 0:
                        continue
                    needs = [made.get((i, stage - 1, half)), made.get((i, stage, "encoder")),
                             made.get((i - 1, stage, "decoder"))]
                    if stage + 1 < case.pp and shape[2] > 0:  # tokens that it hears first
                        needs.append(made[(shape[2] - 1, case.pp - 1, "decoder")])
                    times = []
                    for r in ranks:
                        work = dict(zip(model.columns, case.work[half][r][i]))
                        alone, beside = model.compute(work, False), model.compute(work, True)
                        own = model.exchange(work, case, False)
                        shared = (alone if case.cores == 1 else beside) * model.shared
                        times.append((alone + own, beside + own, shared + model.exchange(work, case, True)))
                    made[(i, stage, half)] = part = Part(times, [n for n in needs if n is not None])
                    part.encodes = shape[0] > 0
                    parts.append(part)
    return parts


def run(case, model):
    every = parts_of(case, model)
    active, now, busy = [p for p in every if p.missing == 0], 0.0, 0.0
    while active:
        working = [(p, k) for p in active for k, left in enumerate(p.left) if left > 0]
        if len(working) > case.cores:
            column, speed = 2, case.cores / len(working)
        else:
            column, speed = (0 if len(working) == 1 else 1), 1.0
        step = min(p.left[k] * p.times[k][column] for p, k in working) / speed
        now += step
        busy += step * min(case.cores, len(working))
        for p, k in working:
            time = p.times[k][column]
            p.left[k] -= step * speed / time if time > 0 else p.left[k]
            if p.left[k] < 1e-9:
                p.left[k] = 0.0
        for p in [p for p in active if not any(p.left)]:
            p.end = now
            active.remove(p)
            for other in p.then:
                other.missing -= 1
                if other.missing == 0:
                    active.append(other)
    encoding = max(p.end for p in every if p.encodes)
    return {"encoding": encoding, "decoding": now - encoding, "whole": now, "idle": 1 - busy / (case.cores * now)}
