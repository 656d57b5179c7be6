"""The figures of scaling.py: a table of what was measured and predicted, and two pictures (SVG)."""
COLOURS = {"tp": "#0b62a4", "pp": "#b8541a", "dp": "#3d8b37"}
MIXED = "#7a4fa3"
HEAD = ("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' font-family='system-ui, sans-serif' font-size='12'>"
        "<style>.frame{{fill:none;stroke:#bbb}}.grid{{stroke:#eee;fill:none}}text{{fill:#444}}.name{{font-weight:600}}"
        ".title{{font-size:16px;font-weight:600}}</style><rect width='{0}' height='{1}' fill='#fff'/>"
        "<text class='title' x='20' y='28'>{2}</text>")
ORDER = ["1", "tp2", "pp2", "dp2", "tp4", "pp4", "dp4", "tp2pp2", "tp2dp2", "pp2dp2"]


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
    lines = [f"{head}. Medians; milliseconds of a round; of two figures the first is of threads, the second of processes.", "",
             "| scaling | layout | batch | encoding | predicted | decoding | predicted | tokens/s | predicted | error of the time, % | cores idle, % |",
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
        out += [f"<text x='{self.at(x, 0)[0]:.1f}' y='{self.top + self.height + 16}' text-anchor='middle'>{x:g}</text>" for x in ticks_x]
        return out + [f"<rect class='frame' x='{self.left}' y='{self.top}' width='{self.width}' height='{self.height}'/>"]


def step_of(most, ticks=6):
    return next(s for s in (m * 10 ** e for e in range(-2, 6) for m in (1, 2, 5)) if most / s <= ticks)


def scaling(cases):
    """Tokens a second over ranks: circles measured, lines predicted; threads full, processes hollow."""
    shown = measured_set(cases)
    most = 1.1 * max(c.tokens() / min(c.measured["whole"], c.predicted["whole"]) for c in shown)
    out = [HEAD.format(1000, 430, "Tokens a second over ranks, on two cores")]
    for i, kind in enumerate(("strong", "weak")):
        frame = Frame(60 + 480 * i, 70, 400, 280, 5, most)
        title = "strong scaling: one batch of 16" if kind == "strong" else "weak scaling: a batch of 8 for each rank"
        out += frame.axes(title, (1, 2, 4), step_of(most))
        mine = [c for c in shown if c.scaling == kind]
        for n in (1, 2, 4):
            names = [name for name in ORDER if any(c.layout == name and c.ranks == n for c in mine)]
            for k, name in enumerate(names):
                x = n + 0.13 * (k - (len(names) - 1) / 2) * (1 if n < 4 else 1.1)
                out += points(frame, x, [c for c in mine if c.layout == name])
    return "\n".join(out + legend(390)) + "\n</svg>\n"


def points(frame, x, cases):
    out, paint = [], colour(cases[0].layout)
    for k, c in enumerate(cases):
        at, y = frame.at(x + (0.03 if k else -0.03), c.tokens() / c.measured["whole"])
        said = frame.at(x, c.tokens() / c.predicted["whole"])[1]
        out.append(f"<circle cx='{at:.1f}' cy='{y:.1f}' r='3.5' fill='{paint if c.ranks_are == 'threads' else '#fff'}' "
                   f"stroke='{paint}' stroke-width='1.5'/>")
        if k == 0:
            out.append(f"<path d='M{at - 5:.1f} {said:.1f}h14' stroke='{paint}' stroke-width='2.5'/>")
    x = frame.at(x, 0)[0]
    y = frame.at(0, 0)[1] - 6
    return out + [f"<text x='{x + 4:.1f}' y='{y:.1f}' fill='{paint}' font-size='10' "
                  f"transform='rotate(-90 {x + 4:.1f} {y:.1f})'>{cases[0].layout}</text>"]


def legend(y):
    out = [f"<text x='260' y='{y - 18}' text-anchor='middle'>ranks</text><text x='740' y='{y - 18}' text-anchor='middle'>ranks</text>"]
    x = 60
    for words, paint, shape in (("measured, ranks are threads", "#444", "full"), ("measured, processes", "#444", "hollow"),
                                ("predicted", "#444", "line"), ("tp", COLOURS["tp"], "full"), ("pp", COLOURS["pp"], "full"),
                                ("dp", COLOURS["dp"], "full"), ("mixed", MIXED, "full")):
        out.append(f"<path d='M{x} {y}h14' stroke='{paint}' stroke-width='2.5'/>" if shape == "line" else
                   f"<circle cx='{x + 7}' cy='{y}' r='3.5' fill='{paint if shape == 'full' else '#fff'}' stroke='{paint}' stroke-width='1.5'/>")
        out.append(f"<text x='{x + 20}' y='{y + 4}'>{words}</text>")
        x += 40 + 6.5 * len(words)
    return out


def predicted(cases):
    """Predicted over measured, for both parts of a round; between the dashed lines the error is at most 15 %."""
    out = [HEAD.format(1000, 460, "Predicted and measured time of a round; fitted on the squares")]
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
            paint = colour(c.layout)
            fill = paint if c.ranks_are == "threads" else "#fff"
            out.append(f"<rect x='{x - 3.5:.1f}' y='{y - 3.5:.1f}' width='7' height='7' fill='{fill}' stroke='{paint}' stroke-width='1.5'/>"
                       if c.fitted else f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{fill}' stroke='{paint}' stroke-width='1.5'/>")
        out.append(f"<text x='{60 + 325 * i + 135}' y='376' text-anchor='middle'>measured</text>")
    rest = [part.replace(">predicted<", ">predicted = measured; dashed: 15 %<") for part in legend(420)[1:]]
    return "\n".join(out + rest) + "\n</svg>\n"
