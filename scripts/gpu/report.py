"""gpu_check.json, gpu_check.md and the logs in one archive: three files, whatever was run."""
import json
import tarfile
import time

MOST_OF_A_BRIEF = 10000  # characters: the end of an output is what comes back


def cell(value):
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return str(value).replace("|", "\\|").replace("\n", " ")


# The columns of measurements that come first.
FIRST = ["batch", "op", "what", "m", "us", "us_low", "us_high", "of_copy", "tokens_per_second", "decode_device_ms", "decode_step_ms", "of memory"]


def table(rows, short=False):
    """Markdown of dictionaries; columns in the order of their first appearance. short: without words that all rows have in common."""
    columns = list(dict.fromkeys(k for row in rows for k in row))
    if {"us", "tokens_per_second"} & set(columns):
        columns = [c for c in FIRST if c in columns] + [c for c in columns if c not in FIRST]
    if short and len(rows) > 1:
        columns = [c for c in columns if not isinstance(rows[0].get(c), str) or len({str(row.get(c)) for row in rows}) > 1]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(row.get(c, "")) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


class Results:
    def __init__(self, folder, about):
        self.folder = folder
        self.about = about
        self.date = time.strftime("%Y-%m-%d %H:%M:%S")
        self.steps = []

    def add(self, step, result):
        self.steps.append({"name": step.name, "about": step.about, **result})

    def count(self, status):
        return sum(s["status"] == status for s in self.steps)

    def write(self, logs=None):
        out = {"date": self.date, "device": self.about, "steps": self.steps,
               "summary": {s: self.count(s) for s in ["passed", "failed", "not run"]}}
        (self.folder / "gpu_check.json").write_text(json.dumps(out, indent=1) + "\n")
        (self.folder / "gpu_check.md").write_text(self.markdown())
        with tarfile.open(self.folder / "gpu_check_logs.tar.gz", "w:gz") as archive:
            for log in sorted(logs.iterdir()) if logs else []:
                archive.add(log, log.name)

    def brief(self):
        """What to read first: the figures of each step, as many tables as fit."""
        text = [table([{"step": s["name"], "": s["status"], "s": s.get("seconds", ""), "figures": self.short(s)[:160]} for s in self.steps])]
        for s in self.steps:
            rows = s.get("figures", {}).get("rows")
            if rows:
                text.append(f"{s['name']}\n" + table(rows, short=True))
                if len("\n".join(text)) > MOST_OF_A_BRIEF:
                    text[-1] = f"{s['name']}: {len(rows)} rows (gpu_check.md)"
        return "\n".join(text)

    def markdown(self):
        a = self.about
        where = a["problem"] and f"No GPU: {a['problem']}" or \
            f"{a['name']}, {a.get('memory_gib', '?')} GiB, compute capability {a.get('capability', '?')}, " \
            f"driver {a['driver']} (CUDA {a.get('cuda', '?')})"
        text = [f"# gpu_check, {self.date}", f"{where}. {a['system']}, {a['cores']} cores. Tandem {a['commit']}, packed {a['packed']}.",
                f"{self.count('passed')} passed, {self.count('failed')} failed, {self.count('not run')} not run.",
                table([{"step": s["name"], "": s["status"], "seconds": s.get("seconds", ""), "what": s["about"],
                        "figures": self.short(s)} for s in self.steps])]
        for s in self.steps:
            rows = s.get("figures", {}).get("rows")
            if rows:
                text += [f"## {s['name']}", s["about"], table(rows)]
        return "\n\n".join(text) + "\n"

    @staticmethod
    def short(step):
        figures = {k: v for k, v in step.get("figures", {}).items() if k != "rows"}
        parts = [step["why"]] if step.get("why") else []
        parts += [f"{k}: {cell(v)}" for k, v in figures.items()]
        return "; ".join(parts)
