"""A rank's time from what it does. The coefficients are fitted on some runs of one rank and of two; simulate.py puts the
times of all ranks together.

    computing       ((a products)^q + (b bytes of weights)^q)^(1/q) + c bytes of keys and values
                    (linear layers read and multiply, which overlap in part)
    two cores busy  a and b grow by a factor each: the cores share the memory, and their clock
    exchanging      e rounds of sums + f bytes of sums; a message is half a round
    shared cores    computing takes g times as long where ranks are more than cores, and a round h seconds more
"""
import math
import statistics
import simulate

COLUMNS = ("products", "weight_bytes", "pairs", "kv_bytes", "norm_rows", "norms", "sums", "sum_bytes", "messages",
           "message_bytes")
HALVES = ("encoder", "decoder")
TIMES = ("encoding", "decoding")
TWO_ROUNDS = 0.9 * 32768  # bytes of a step's mean sum, of which one is small
QUIET = 0.03  # share of the cores that others may have had in a run


class Case:
    """All quiet runs of one layout: medians of what was measured, and the counts."""

    def __init__(self, key, runs):
        self.set, self.layout, self.ranks_are, self.scaling, self.batch = key
        run = self.run = runs[0]
        self.tp, self.pp, self.dp, self.cores = run["tp"], run["pp"], run["dp"], run["cores"]
        self.ranks = self.tp * self.pp * self.dp
        self.shapes, self.work = run["shapes"], run["work"]
        self.quiet = [r for r in runs if r["others"] <= QUIET]
        rounds = [r for one in self.quiet or runs for r in one["rounds"]]
        for r in rounds:
            r["whole"] = r["encoding"] + r["decoding"]
        self.measured = {name: statistics.median(r[name] for r in rounds) for name in (*TIMES, "whole")}
        self.spread = min(r["whole"] for r in rounds), max(r["whole"] for r in rounds)
        # In the steps with an encoder, and in the others: the ranks' mean; and the rank that waits least.
        self.computing = {name: statistics.median(statistics.mean(self.of_ranks(r, name, False)) for r in rounds) for name in TIMES}
        self.exchanging = {name: statistics.median(min(self.of_ranks(r, name, True)) for r in rounds) for name in TIMES}
        # The share of a round in which a core had no rank to run.
        self.idle = statistics.median(1 - sum(step[3] for steps in r["steps"] for step in steps) / (self.cores * r["whole"])
                                      for r in rounds)
        self.predicted, self.fitted, self._works = None, False, {}

    def steps(self, name):
        return [i for i, shape in enumerate(self.shapes) if (shape[0] > 0) == (name == "encoding")]

    def of_ranks(self, round_, name, exchange):
        for steps in round_["steps"]:
            yield sum(steps[i][2] if exchange else steps[i][1] - steps[i][0] - steps[i][2] for i in self.steps(name))

    def works(self, name):
        """What each rank does in each half of these steps."""
        if name not in self._works:
            self._works[name] = [dict(zip(COLUMNS, of_rank[i])) for half in HALVES for of_rank in self.work[half]
                                 for i in self.steps(name) if any(of_rank[i])]
        return self._works[name]

    def counts(self, name):
        return {column: sum(w[column] for w in self.works(name)) for column in COLUMNS}

    def tokens(self):
        return self.batch * self.run["new_tokens"]

    def error(self, name="whole"):
        return self.predicted[name] / self.measured[name] - 1


def cases_of(runs):
    by_key = {}
    for run in runs:
        by_key.setdefault((run["set"], run["layout"], run["ranks_are"], run["scaling"], run["batch"]), []).append(run)
    return [Case(key, some) for key, some in by_key.items()]


def non_negative(rows, wanted):
    """Coefficients >= 0 of the columns of rows, whose sums are nearest to what is wanted: least squares of the relative
    errors, column by column until nothing changes."""
    rows = [[x / w for x in row] for row, w in zip(rows, wanted)]
    scale = [max(row[k] for row in rows) or 1.0 for k in range(len(rows[0]))]
    rows = [[x / s for x, s in zip(row, scale)] for row in rows]
    found = [0.0] * len(scale)
    for _ in range(20000):
        for k in range(len(found)):
            left = [1 - sum(x * c for j, (x, c) in enumerate(zip(row, found)) if j != k) for row in rows]
            found[k] = max(0.0, sum(row[k] * e for row, e in zip(rows, left)) / (sum(row[k] ** 2 for row in rows) or 1.0))
    return [c / s for c, s in zip(found, scale)]


def least(function, start, rounds=8):
    """The arguments at which function is least, near start: Nelder and Mead's walk of a simplex, begun again."""
    best = list(start)
    for turn in range(rounds):
        size = 0.5 / (turn + 1)
        corners = [best] + [[x + size * (i == j) for j, x in enumerate(best)] for i in range(len(best))]
        values = sorted((function(c), c) for c in corners)
        for _ in range(50 * len(best)):
            centre = [statistics.mean(c[i] for _, c in values[:-1]) for i in range(len(best))]
            tried = []
            for length in (-1, -2, 0.5):
                corner = [m + length * (w - m) for m, w in zip(centre, values[-1][1])]
                tried.append((function(corner), corner))
            if min(tried) < values[-1]:
                values[-1] = min(tried)
            else:
                near = [[(x + y) / 2 for x, y in zip(c, values[0][1])] for _, c in values[1:]]
                values = [values[0]] + [(function(c), c) for c in near]
            values.sort()
        best = values[0][1]
    return best


class Model:
    columns = COLUMNS
    product, memory, cache, power = 3e-11, 1e-10, 5e-11, 2.0  # seconds, of a rank alone
    busy_product = busy_memory = 1.0
    sum = sum_byte = 0.0
    shared, shared_sum = 1.0, 0.0

    def compute(self, w, busy):
        products = (w["products"] + w["pairs"]) * self.product * (self.busy_product if busy else 1)
        memory = w["weight_bytes"] * self.memory * (self.busy_memory if busy else 1)
        linear = (products ** self.power + memory ** self.power) ** (1 / self.power)
        return linear + w["kv_bytes"] * self.cache

    def computing(self, case, name, busy):
        """Of all ranks, in the steps with an encoder or in the others."""
        return sum(self.compute(w, busy) for w in case.works(name))

    def exchange(self, w, case, shared):
        """With stages, a stage's sums are messages. From three ranks on, a large sum has two rounds (docs/parallel.md)."""
        calls, moved = (w["messages"] / 2, w["message_bytes"] / 2) if case.pp > 1 else (w["sums"], w["sum_bytes"])
        if case.pp == 1 and case.tp > 2 and moved >= calls * TWO_ROUNDS:
            calls *= 2
        return calls * (self.sum + (self.shared_sum if shared else 0)) + moved * self.sum_byte

    def predict(self, case):
        return simulate.run(case, self)

    def fit_computing(self, alone, busy):
        names = ("product", "memory", "cache", "power", "busy_product", "busy_memory")
        wanted = [(c, name, c in busy) for c in alone + busy for name in TIMES]

        def error(logs):
            for name, log in zip(names, logs):
                setattr(self, name, math.exp(min(max(log, -40.0), 40.0)))
            self.power = min(max(self.power, 1.0), 4.0)
            # The factors stay near 1 where the runs do not tell them apart.
            near = 1e-5 * (math.log(self.busy_product) ** 2 + math.log(self.busy_memory) ** 2)
            return near + sum(math.log(self.computing(c, name, is_busy) / c.ranks / c.computing[name]) ** 2
                              for c, name, is_busy in wanted)

        error(least(error, [math.log(getattr(self, name)) for name in names]))

    def fit_exchange(self, cases):
        rows, wanted = [], []
        for c in cases:
            for name in TIMES:
                w = c.counts(name)
                rows.append([w["sums"] / c.ranks, w["sum_bytes"] / c.ranks])
                wanted.append(c.exchanging[name])
        self.sum, self.sum_byte = non_negative(rows, wanted)

    def fit_shared(self, cases):
        rows, wanted = [], []
        for c in cases:
            for name in TIMES:
                w = c.counts(name)
                rows.append([self.computing(c, name, False), w["sums"]])
                wanted.append(c.measured[name] - self.exchange(w, c, False))
        self.shared, self.shared_sum = non_negative(rows, wanted)


def fit(cases):
    model = Model()

    def chosen(layout, set_="all", scaling=("strong",)):
        found = [c for c in cases if c.layout == layout and c.set == set_ and c.scaling in scaling]
        for c in found:
            c.fitted = True
        return found

    both = ("strong", "weak")
    model.fit_computing(chosen("1", "all", both) + chosen("1", "shapes", both), chosen("dp2") + chosen("tp2"))
    model.fit_exchange(chosen("tp2"))
    model.fit_shared(chosen("tp2", "one core") + chosen("dp2", "one core"))
    return model
