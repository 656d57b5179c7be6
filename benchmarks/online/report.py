"""The figures of online.py as a Markdown table and as a picture (SVG)."""
import math

COLOURS = {"tandem": "#0b62a4", "tandem-int8": "#4aa3df", "tandem-bf16": "#083b63", "ct2": "#b8541a",
           "ct2-int8": "#f0a05a", "ct2-bf16": "#7d3a12", "hf": "#3d8b37", "hf-bf16": "#8cc084"}


def cell(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def markdown(report):
    lines = [f"{report['cpu']}, {report['threads']} threads, {report['date']}; {report['seconds']:g} s of arrivals a point; "
             "seconds. `full`: more came than went out, so latencies grow with the time one looks on.", "",
             "| offered, requests/s | system | served/s | tokens/s | p50 | p95 | p99 | first token p50 | p95 | |",
             "|---" * 10 + "|"]
    for p in sorted(report["points"], key=lambda p: (p["rate"], report["systems"].index(p["system"]))):
        lines.append(f"| {p['rate']:g} | {p['system']} | {cell(p['requests_per_second'])} | {cell(p['tokens_per_second'], 0)} | "
                     + " | ".join(cell(p[f"{key}_p{share}"]) for key, share in
                                  (("e2el", 50), ("e2el", 95), ("e2el", 99), ("ttft", 50), ("ttft", 95)))
                     + f" | {'full' if p['saturated'] else ''} |")
    lines += [""] + [f"- `{name}`: {text}" for name, text in report["settings"].items()]
    return "\n".join(lines) + "\n"


class Panel:
    """Latency (logarithmic) over served requests a second."""

    def __init__(self, left, points, title, key):
        self.left, self.points, self.title, self.key = left, points, title, key
        self.top, self.width, self.height = 70, 290, 260
        values = [p[f"e2el_p{share}"] for p in points for share in (50, 95, 99)]
        self.most = 1.08 * max(p["requests_per_second"] for p in points)
        self.low, self.high = math.log10(min(values) * 0.8), math.log10(max(values) * 1.2)

    def at(self, x, y):
        return (self.left + self.width * x / self.most,
                self.top + self.height * (1 - (math.log10(y) - self.low) / (self.high - self.low)))

    def axes(self):
        out = [f"<rect class='frame' x='{self.left}' y='{self.top}' width='{self.width}' height='{self.height}'/>",
               f"<text class='name' x='{self.left}' y='{self.top - 10}'>{self.title}</text>"]
        decade = math.floor(self.low)
        for tick in [m * 10 ** e for e in range(decade, math.ceil(self.high) + 1) for m in (1, 2, 5)]:
            if self.low <= math.log10(tick) <= self.high:
                y = self.at(0, tick)[1]
                out.append(f"<path class='grid' d='M{self.left} {y:.1f}h{self.width}'/>"
                           f"<text x='{self.left - 6}' y='{y + 4:.1f}' text-anchor='end'>{tick:g}</text>")
        step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if self.most / s <= 8)
        for i in range(int(self.most / step) + 1):
            x = self.at(i * step, 10 ** self.low)[0]
            out.append(f"<text x='{x:.1f}' y='{self.top + self.height + 16}' text-anchor='middle'>{i * step:g}</text>")
        return out

    def lines(self):
        out = []
        for name in dict.fromkeys(p["system"] for p in self.points):
            mine = sorted((p for p in self.points if p["system"] == name), key=lambda p: p["rate"])
            places = [self.at(p["requests_per_second"], p[self.key]) for p in mine]
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            out.append(f"<path d='{path}' fill='none' stroke='{COLOURS[name]}' stroke-width='2'/>")
            for p, (x, y) in zip(mine, places):
                fill = "#fff" if p["saturated"] else COLOURS[name]
                out.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{fill}' stroke='{COLOURS[name]}' "
                           "stroke-width='1.5'/>")
        return out


def svg(report):
    points = [p for p in report["points"] if p["e2el_p50"] is not None]
    out = ["<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1060 420' font-family='system-ui, sans-serif' "
           "font-size='12'><style>.frame{fill:none;stroke:#bbb}.grid{stroke:#eee;fill:none}text{fill:#444}"
           ".name{font-weight:600}.title{font-size:16px;font-weight:600}</style>"
           "<rect width='1060' height='420' fill='#fff'/>"
           "<text class='title' x='20' y='28'>Latency over throughput, Poisson arrivals, mixed lengths</text>"]
    for i, share in enumerate((50, 95, 99)):
        panel = Panel(50 + 345 * i, points, f"p{share} of the time to the last token, s", f"e2el_p{share}")
        out += panel.axes() + panel.lines()
    out.append("<text x='195' y='368' text-anchor='middle'>requests served a second; hollow: full</text>")
    x = 50
    for name in [s for s in report["systems"] if any(p["system"] == s for p in points)]:
        out.append(f"<rect x='{x}' y='388' width='14' height='4' fill='{COLOURS[name]}'/><text x='{x + 20}' y='394'>{name}</text>")
        x += 40 + 8 * len(name)
    return "\n".join(out) + "\n</svg>\n"
