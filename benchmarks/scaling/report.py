"""The figures of scaling.py: a table of what was measured and predicted, and two pictures (SVG)."""
COLOURS = {"tp": "#0b62a4", "pp": "#b8541a", "dp": "#3d8b37"}
MIXED = "#7a4fa3"
HEAD = ("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' font-family='system-ui, sans-serif' font-size='12'>"
        "<style>.frame{{fill:none;stroke:#bbb}}.grid{{stroke:#eee;fill:none}}text{{fill:#444}}.name{{font-weight:600}}"
        ".title{{font-size:16px;font-weight:600}}</style><rect width='{0}' height='{1}' fill='#fff'/>"
        "<text class='title' x='20' y='28'>{2}</text>")
ORDER = ["1", "tp2", "pp2", "dp2", "tp4", "pp4", "dp4", "tp2pp2", "tp2dp2", "pp2dp2"]
RANKS = {name: 1 if name == "1" else 2 if len(name) == 3 and name[2] == "2" else 4 for name in ORDER}
PLACES = {1: 0.8, 2: 2.6, 4: 6.4}  # of the first layout with so many ranks


def colour(layout):
    return COLOURS.get(layout[:2], "#444") if len(layout) <= 3 else MIXED


def measured_set(cases):
    return sorted((c for c in cases if c.set == "all"), key=lambda c: (ORDER.index(c.layout), c.ranks_are != "threads", c.scaling))


def row(cases):
    """Of a layout: ranks as threads and as processes, of which the model says the same."""
    one, both = cases[0], lambda say: ", ".join(say(c) for c in cases)  # noqa: E731
    cells = [one.scaling, one.layout, str(one.batch)]
    for name in ("encoding", "decoding"):
        cells += [both(lambda c: f"{c.measured[name] * 1e3:.0f}"), f"{one.predicted[name] * 1e3:.0f}"]
    cells += [both(lambda c: f"{c.tokens() / c.measured['whole']:.0f}"), f"{one.tokens() / one.predicted['whole']:.0f}",
              both(lambda c: f"{100 * c.error():+.0f}" + (" (fitted)" if c.fitted else "")), both(lambda c: f"{100 * c.idle:.0f}")]
    return f"| {' | '.join(cells)} |"


def parts_out(cases):
    """Where a part of a round is not predicted within 15 %, although the whole may be."""
    return [f"- {c.scaling} {c.layout}, {c.ranks_are}, {name}: {100 * c.error(name):+.0f} %" for c in cases if not c.fitted
            for name in ("encoding", "decoding", "whole") if abs(c.error(name)) > 0.15]


def markdown(head, model, cases):
    lines = [f"{head}. Medians; of two figures the first is of threads, the second of processes.", "",
             "| scaling | layout | batch | first tokens, ms | predicted | the rest, ms | predicted | tokens/s | predicted | error, % "
             "| cores idle, % |",
             "|---" * 11 + "|"]
    shown = measured_set(cases)
    keys = sorted({(c.scaling, ORDER.index(c.layout)) for c in shown})
    lines += [row([c for c in shown if (c.scaling, ORDER.index(c.layout)) == key]) for key in keys]
    others = [c for c in shown if not c.fitted]
    good = sum(abs(c.error()) <= 0.15 for c in others)
    lines += ["", f"{good} of {len(others)} predictions are within 15 %. Beyond that:", *parts_out(shown)]
    lines += ["", "| coefficient | value |", "|---|---|"]
    per_second = lambda seconds: f"{1e-9 / seconds:.1f}" if seconds > 0 else "unlimited"  # noqa: E731
    lines += [f"| {name} | {value} |" for name, value in (
        ("multiplications with additions a second", f"{per_second(model.product)} × 10⁹"),
        ("bytes of weights a second", f"{per_second(model.memory)} × 10⁹"),
        ("bytes of keys and values a second", f"{per_second(model.cache)} × 10⁹"), ("q", f"{model.power:.2f}"),
        ("two cores busy: products take", f"{model.busy_product:.2f} times as long"),
        ("two cores busy: bytes take", f"{model.busy_memory:.2f} times as long"),
        ("a round of a sum", f"{model.sum * 1e6:.1f} µs"), ("bytes summed a second", f"{per_second(model.sum_byte)} × 10⁹"),
        ("shared cores: work takes", f"{model.shared:.2f} times as long"),
        ("shared cores: a round, more", f"{model.shared_sum * 1e6:.1f} µs"))]
    return "\n".join(lines) + "\n"


class Frame:
    """A rectangle with x and y from 0."""

    def __init__(self, left, top, width, height, most_x, most_y):
        self.left, self.top, self.width, self.height, self.most_x, self.most_y = left, top, width, height, most_x, most_y

    def at(self, x, y):
        return self.left + self.width * x / self.most_x, self.top + self.height * (1 - y / self.most_y)

    def axes(self, title, ticks_x, step_y):
        out = [f"<text class='name' x='{self.left}' y='{self.top - 10}'>{title}</text>"]
        y = 0
        while y <= self.most_y:
            at = self.at(0, y)[1]
            out.append(f"<path class='grid' d='M{self.left} {at:.1f}h{self.width}'/>"
                       f"<text x='{self.left - 6}' y='{at + 4:.1f}' text-anchor='end'>{y:g}</text>")
            y += step_y
        below = self.top + self.height + 16
        out += [f"<text x='{self.at(x, 0)[0]:.1f}' y='{below}' text-anchor='middle'>{x:g}</text>" for x in ticks_x]
        return out + [f"<rect class='frame' x='{self.left}' y='{self.top}' width='{self.width}' height='{self.height}'/>"]


def step_of(most, ticks=6):
    return next(s for s in (m * 10 ** e for e in range(-2, 6) for m in (1, 2, 5)) if most / s <= ticks)


def scaling(cases):
    """Tokens a second by layout."""
    shown = measured_set(cases)
    most = 1.1 * max(c.tokens() / min(c.measured["whole"], c.predicted["whole"]) for c in shown)
    out = [HEAD.format(1000, 430, f"Tokens a second over ranks, on {shown[0].cores} cores")]
    for i, kind in enumerate(("strong", "weak")):
        mine = [c for c in shown if c.scaling == kind]
        each = next(c.batch // c.ranks for c in mine)  # the first one is of one rank
        title = f"strong scaling: one batch of {each}" if kind == "strong" else f"weak scaling: a batch of {each} for each rank"
        frame = Frame(60 + 480 * i, 70, 400, 280, 12.4, most)
        out += frame.axes(title, (), step_of(most))
        for n in (1, 2, 4):
            names = [name for name in ORDER if RANKS[name] == n]
            for k, name in enumerate(names):
                out += points(frame, PLACES[n] + k, [c for c in mine if c.layout == name])
            middle = frame.at(PLACES[n] + (len(names) - 1) / 2, 0)[0]
            words = "1 rank" if n == 1 else f"{n} ranks"
            out.append(f"<text x='{middle:.1f}' y='{frame.top + frame.height + 16}' text-anchor='middle'>{words}</text>")
    return "\n".join(out + legend(400, "predicted")) + "\n</svg>\n"


def points(frame, x, cases):
    if not cases:
        return []
    paint, out = colour(cases[0].layout), []
    left, said = frame.at(x - 0.35, cases[0].tokens() / cases[0].predicted["whole"])
    out.append(f"<path d='M{left:.1f} {said:.1f}H{frame.at(x + 0.35, 0)[0]:.1f}' stroke='{paint}' stroke-width='2.5'/>")
    for shift, c in zip((-0.15, 0.15), cases):
        at, y = frame.at(x + shift, c.tokens() / c.measured["whole"])
        out.append(mark("circle", at, y, paint, c.ranks_are == "threads"))
    at, y = frame.at(x, 0)
    return out + [f"<text x='{at + 4:.1f}' y='{y - 6:.1f}' style='fill:{paint}' "
                  f"transform='rotate(-90 {at + 4:.1f} {y - 6:.1f})'>{cases[0].layout}</text>"]


def mark(shape, x, y, paint, full):
    style = f"fill='{paint if full else '#fff'}' stroke='{paint}' stroke-width='1.5'/>"
    if shape == "circle":
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' {style}"
    return f"<rect x='{x - 3.5:.1f}' y='{y - 3.5:.1f}' width='7' height='7' {style}"


def legend(y, line):
    out, x = [], 60
    for words, paint, shape in (("ranks are threads", "#444", "full"), ("processes", "#444", "hollow"), (line, "#444", "line"),
                                ("tp", COLOURS["tp"], "full"), ("pp", COLOURS["pp"], "full"), ("dp", COLOURS["dp"], "full"),
                                ("mixed", MIXED, "full")):
        out.append(f"<path d='M{x} {y}h14' stroke='{paint}' stroke-width='2.5'/>" if shape == "line" else
                   mark("circle", x + 7, y, paint, shape == "full"))
        out.append(f"<text x='{x + 20}' y='{y + 4}'>{words}</text>")
        x += 40 + round(6.5 * len(words))
    return out


def predicted(cases):
    """Predicted over measured, for both parts of a round; between the dashed lines the error is at most 15 %."""
    out = [HEAD.format(1000, 460, "Predicted and measured time; squares: fitted")]
    for i, (name, title) in enumerate((("encoding", "until all have a first token, s"), ("decoding", "from there to the end, s"),
                                       ("whole", "the whole, s"))):
        shown = measured_set(cases)
        most = 1.1 * max(max(c.measured[name], c.predicted[name]) for c in shown)
        frame = Frame(60 + 325 * i, 70, 270, 270, most, most)
        step = step_of(most)
        out += frame.axes(title, [k * step for k in range(int(most / step) + 1)], step)
        for slope, dash in ((1, ""), (1.15, " stroke-dasharray='4 3'"), (0.85, " stroke-dasharray='4 3'")):
            end = min(most, most / slope)
            (x0, y0), (x1, y1) = frame.at(0, 0), frame.at(end, slope * end)
            out.append(f"<path d='M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}' stroke='#999'{dash}/>")
        for c in shown:
            x, y = frame.at(c.measured[name], c.predicted[name])
            out.append(mark("rect" if c.fitted else "circle", x, y, colour(c.layout), c.ranks_are == "threads"))
        out.append(f"<text x='{60 + 325 * i + 135}' y='376' text-anchor='middle'>measured (upwards: predicted)</text>")
    return "\n".join(out + legend(420, "predicted = measured; dashed: 15 % more or less")) + "\n</svg>\n"
