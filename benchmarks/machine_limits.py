"""How fast a machine could go at most: from a checkpoint's shapes, what a run reads and multiplies, and bench_probes.

The least time of a batch in a type is that of its encoder's products at the rate of the type's product instruction,
plus, for each step of the decoder, the larger of reading its weights once and multiplying them, and reading the keys
and values of what came before. Nothing else costs anything: no attention of the encoder, norms, rounding, or choice of
tokens; every operand is in a register when it is needed. Weights and keys come at the rate at which this machine reads
a buffer of the size of the weights (which a large last-level cache may hold)."""
import json, platform, re, struct, subprocess

WEIGHT_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1, "int4": 17 / 32}
PRODUCTS = {"int4": "int8"}  # in which type the others are multiplied
CROSS = re.compile(r"(encoder_attn|EncDecAttention|crossattention)\.(k|v|k_proj|v_proj)\.weight$")


def cpu_name():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class Shapes:
    """Elements of the linear weights: of the encoder, of a step of the decoder (with the head), of cross keys and values."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        vocabulary = config["vocab_size"]
        self.encoder = self.decoder = self.cross = self.width_of_keys = 0
        for name, shape in self.tensors(folder):
            if len(shape) != 2 or vocabulary in shape or "embed" in name or "bias" in name:
                continue
            size = shape[0] * shape[1]
            if CROSS.search(name):
                self.cross += size
                self.width_of_keys += shape[0]  # of all layers, keys and values
            elif "decoder." in name:
                self.decoder += size
            elif "encoder." in name:
                self.encoder += size
        if not (self.encoder and self.decoder and self.cross):
            raise ValueError(f"{folder} has no linear layers of an encoder and a decoder by names known here")
        self.decoder += vocabulary * config["d_model"]

    @staticmethod
    def tensors(folder):
        with open(folder / "model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        return [(name, tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"]

    def decoder_bytes(self, dtype):
        return self.decoder * WEIGHT_BYTES[dtype]


def probe(program, threads, shapes, dtypes):
    """What the machine can do now: {dtype: (operations a second, bytes a second)}."""
    sizes = {dtype: max(1, round(shapes.decoder_bytes(dtype) / 2**20)) for dtype in dtypes}
    command = [program, "--threads", threads, "--megabytes", ",".join(str(s) for s in sizes.values())]
    rates = json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {dtype: (1e9 * rates["gflops"][PRODUCTS.get(dtype, dtype)], 1e9 * rates["gbytes"][str(sizes[dtype])])
            for dtype in dtypes}


def least_seconds(shapes, dtype, rates, batch, source_tokens, new_tokens, key_bytes=None):
    """Of a batch, greedily; rates: of probe()."""
    operations, read = rates[dtype]
    key_bytes = key_bytes or (4 if dtype == "float32" else 2)
    encoder = 2 * (shapes.encoder + shapes.cross) * batch * source_tokens / operations
    weights = max(shapes.decoder_bytes(dtype) / read, 2 * shapes.decoder * batch / operations)
    keys = sum(batch * shapes.width_of_keys * (source_tokens + t + 1) * key_bytes / read for t in range(new_tokens))
    return encoder + new_tokens * weights + keys


OURS, PEERS = ["#0b62a4", "#083b63", "#4aa3df", "#8ec9f0"], ["#b8541a", "#f0a05a", "#3d8b37", "#8cc084", "#7d3a12", "#777"]


def svg(report):
    """Tokens a second of each engine as bars, by batch; a line over a bar of Tandem's is the machine's limit in its type."""
    rows, batches = report["results"], list(dict.fromkeys(r["batch"] for r in report["results"]))
    names = list(dict.fromkeys(r["engine"] for r in rows))
    ours = [name for name in names if name.startswith("tandem")]
    colour = dict(zip(ours, OURS * 9)) | dict(zip([name for name in names if name not in ours], PEERS * 9))
    bar, height = 26, 250
    width = 30 + len(batches) * (len(names) * bar + 40)
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height + 100 + 18 * len(names)}' "
           "font-family='system-ui, sans-serif' font-size='11'><style>text{fill:#444}.title{font-size:15px;font-weight:600}"
           f"</style><rect width='100%' height='100%' fill='#fff'/><text class='title' x='20' y='24'>{report['model']}: "
           "tokens a second</text><text x='20' y='42'>black lines: the most this machine could do in that type</text>"]
    left = 30
    for batch in batches:
        mine = [r for r in rows if r["batch"] == batch]
        most = max(max(r["tokens_per_second"], r.get("limit_tokens_per_second", 0)) for r in mine)
        for i, r in enumerate(mine):
            x, h = left + i * bar, height * r["tokens_per_second"] / most
            out.append(f"<rect x='{x}' y='{60 + height - h:.1f}' width='{bar - 4}' height='{h:.1f}' fill='{colour[r['engine']]}'>"
                       f"<title>{r['engine']}, batch {batch}: {r['tokens_per_second']:.0f} tokens/s</title></rect>"
                       f"<text x='{x + bar / 2 - 2}' y='{56 + height - h:.1f}' text-anchor='middle' font-size='9'>"
                       f"{r['tokens_per_second']:.0f}</text>")
            if "limit_tokens_per_second" in r:
                y = 60 + height * (1 - r["limit_tokens_per_second"] / most)
                out.append(f"<path d='M{x - 2} {y:.1f}h{bar}' stroke='#000' stroke-width='2'><title>limit: "
                           f"{r['limit_tokens_per_second']:.0f} tokens/s</title></path>")
        out.append(f"<text x='{left + len(mine) * bar / 2}' y='{height + 78}' text-anchor='middle'>batch {batch}</text>")
        left += len(names) * bar + 40
    for i, name in enumerate(names):
        y = height + 98 + 18 * i
        out.append(f"<rect x='30' y='{y - 10}' width='12' height='12' fill='{colour[name]}'/><text x='48' y='{y}'>{name}</text>")
    return "\n".join(out) + "\n</svg>\n"
