#!/usr/bin/env python3
"""Draws the two pictures of docs/design/architecture.md: docs/images/draw.py (no arguments) writes tree.svg and
../life_of_a_request.svg. What they say is in the lists below."""
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
STYLE = """.b{fill:#f4f6fa;stroke:#4a5a78;stroke-width:1.2}.m{fill:#eef7f0;stroke:#3f7a55;stroke-width:1.2}
.l{fill:#fbfbfd;stroke:#d6dae3}.t{fill:#1c2433}.s{fill:#5b6577;font-size:11px}.c{text-anchor:middle}
.a{stroke:#4a5a78;stroke-width:1.4;fill:none;marker-end:url(#h)}"""

# Folders from the top of the house to its ground: what they are for, what they alone may include.
FOLDERS = [
    [("launcher", "commands and flags; HTTP and ranks put together; the hub", "CLI11, libcurl")],
    [("client", "the client library, for other processes", "CAF"), ("server", "http/  api/  page/: OpenAI's routes", "Asio")],
    [("actors", "engine, schedulers, workers, supervisor: they move messages; network/", "CAF")],
    [("runtime", "every decision about requests and steps; rooms, from left to right:", "Protobuf")],
    [("models", "families; blocks/  config/  checkpoint/  step/", "")],
    [("text", "tokenizers: text to token ids and back", "ICU, Oniguruma")],
    [("parallel", "ranks: communicators/  layers/", "MPI, NCCL")],
    [("kernels", "tensors and ops: core/  check/  cpu/  cuda/", "CUDA")],
    [("base", "errors, checks, JSON, UTF-8", "")],
]
ROOMS = [("protocol", "messages"), ("media", "sound"), ("request", "tokens, parameters"), ("sampling", "logits to tokens"),
         ("scheduling", "batches, blocks"), ("execution", "a rank's step"), ("engine", "requests' lives")]

# Lanes are threads. A step: its number in docs/design/life_of_a_request.md, lane, x, width, title, subtitle.
LANES = [("a connection", "a strand each"), ("engine actor", "one"), ("scheduler actor", "one a replica"), ("worker actor", "one a rank")]
STEPS = [
    (1, 0, 150, 160, "header, key, body", "server/http"), (2, 0, 350, 170, "JSON, read once", "Prompt, options"),
    (3, 1, 150, 120, "let in", "Intake"), (4, 1, 310, 170, "token ids, parameters", "two threads apart"), (5, 1, 520, 160, "to a replica", "ReplicaTable"),
    (6, 2, 520, 160, "the next step", "budget, blocks"), (7, 3, 380, 190, "batch, encoder, decoder", "ModelRunner, Model"),
    (8, 3, 610, 150, "logits to tokens", "Sampler"), (9, 2, 730, 200, "what has ended, beams", "StepLoop"),
    (10, 1, 730, 200, "text, stop rules, news", "RequestState, cursor"), (11, 0, 730, 200, "OpenAI's JSON, events", "to the socket"),
]
ARROWS = ["M310 56H348", "M435 81V103H210V119", "M270 146H308", "M480 146H518", "M600 171V209", "M560 261V299", "M570 326H608", "M745 301V263",
          "M830 211V173", "M830 121V83", "M730 236H682"]
LABELS = [(470, 98, "EngineApi"), (640, 196, "AddRequest"), (520, 286, "StepInput"), (790, 286, "StepOutput"), (872, 196, "StepOutput"), (882, 106, "RequestChunk"), (706, 228, "again")]


def picture(width, height, label, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" role="img" '
            f'aria-label="{escape(label)}">\n<style>{STYLE}</style>\n<defs><marker id="h" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#4a5a78"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, words, kind):
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def box(x, y, width, height, kind="b"):
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def tree():
    out, y = [], 16
    for row in FOLDERS:
        height = 96 if row[0][0] == "runtime" else 42
        width = (880 - 16 * (len(row) - 1)) / len(row)
        for i, (name, purpose, alone) in enumerate(row):
            x = 20 + i * (width + 16)
            out += [box(x, y, width, height, "m" if name == "runtime" else "b"),
                    f'<text class="t" x="{x + 14:g}" y="{y + 26}" font-weight="bold">{name}/</text>', text(x + 96, y + 26, purpose, "s")]
            if alone:
                out.append(f'<text class="s" x="{x + width - 14:g}" y="{y + 26}" text-anchor="end" font-style="italic">{alone}</text>')
        if height > 42:
            for i, (name, purpose) in enumerate(ROOMS):
                x = 34 + i * 123
                out += [box(x, y + 40, 114, 44), text(x + 57, y + 58, name, "t c"), text(x + 57, y + 74, purpose, "s c")]
        y += height + 16
        if row is not FOLDERS[-1]:
            out.append(f'<path class="a" d="M460 {y - 16}V{y - 2}"/>')
    return picture(920, y, "The folders of the tree, from the launcher down to base; each includes only those below it", out)


def life():
    out = []
    for i, (name, where) in enumerate(LANES):
        y = 20 + 90 * i
        out += [f'<rect class="l" x="10" y="{y}" width="940" height="76" rx="6"/>', text(22, y + 34, name, "t" if len(name) < 17 else "s"), text(22, y + 50, where, "s")]
    for number, lane, x, width, title, subtitle in STEPS:
        y = 31 + 90 * lane
        out += [box(x, y, width, 50, "m" if lane == 3 else "b"), text(x + width / 2, y + 21, f"{number}  {title}", "t c"), text(x + width / 2, y + 38, subtitle, "s c")]
    out += [f'<path class="a" d="{d}"/>' for d in ARROWS] + [text(x, y, words, "s c") for x, y, words in LABELS]
    return picture(960, 390, "A request on its way through four kinds of threads: connection, engine, scheduler, worker, and back", out)


(HERE / "tree.svg").write_text(tree())
(HERE.parent / "life_of_a_request.svg").write_text(life())
