#!/usr/bin/env python3
"""PyTorch at the work of bench_gpu: a random BART, 260 to 440 tokens in, 128 out, greedy.

    compare_torch.py [--batch 1,8,32,64,128] [--beams 1] [--size large|tiny] [--dtype bfloat16] [--device cuda] [--seconds 110]
                     [--engines plain,transformers]

Engines: `plain`, BART in plain PyTorch: SDPA, static caches, a CUDA graph of the decoder's step; `transformers`, HuggingFace's
generate with its static cache, compiled, SDPA; left out where transformers is not installed. One JSON object a line, in the
keys of bench_gpu; the first says what the GPU does at best: a large copy and a large product. What does not fit into --seconds
is not measured. Needs PyTorch alone.
"""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

SIZES = {"large": (12, 1024, 16, 4096, 50265), "tiny": (2, 64, 4, 128, 1024)}  # layers, hidden, heads, inner, vocabulary
POSITIONS, BOS, PAD, EOS = 1024, 0, 1, 2


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batch", default="1,8,32,64,128")
    p.add_argument("--beams", type=int, default=1, help="transformers only")
    p.add_argument("--size", default="large", choices=SIZES)
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--device", default="cuda")
    p.add_argument("--least-source", type=int, default=260)
    p.add_argument("--most-source", type=int, default=440)
    p.add_argument("--new-tokens", type=int, default=128)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--seconds", type=float, default=110)
    p.add_argument("--engines", default="plain,transformers")
    args = p.parse_args(argv)
    args.batches = [int(b) for b in args.batch.split(",")]
    args.engines = args.engines.split(",")
    args.type = getattr(torch, args.dtype)
    args.end = time.monotonic() + args.seconds
    return args


def say(row):
    print(json.dumps(row), flush=True)


def synchronize(args):
    if args.device.startswith("cuda"):
        torch.cuda.synchronize()


def sources(args, batch):
    """Ids padded to the longest, and which of them count. The lengths are bench_gpu's."""
    spread = args.most_source - args.least_source + 1
    lengths = torch.tensor([args.least_source + i * 37 % spread for i in range(batch)])
    ids = torch.randint(4, SIZES[args.size][4] - 2, (batch, int(lengths.max())), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(ids.shape[1])[None, :] < lengths[:, None]
    ids = torch.where(mask, ids, PAD)
    ids[:, 0] = BOS
    ids[torch.arange(batch), lengths - 1] = EOS
    return ids.to(args.device), mask.to(args.device)


def timed(args, body):
    """The fastest of --repeat, after one that warms up. `body` returns (tokens, seconds of the prompts)."""
    best = None
    for i in range(args.repeat + 1):
        synchronize(args)
        start = time.monotonic()
        tokens, prompts = body()
        synchronize(args)
        seconds = time.monotonic() - start
        if i > 0 and (best is None or seconds < best[0]):
            best = (seconds, tokens, prompts)
        if i > 0 and time.monotonic() > args.end:
            break
    return best


def limits(args):
    """GB/s of a copy, read and written, and TFLOP/s of a product of the type."""
    if not args.device.startswith("cuda"):
        return
    a = torch.empty(1 << 30, dtype=torch.uint8, device=args.device)
    b = torch.empty_like(a)
    x, w = (torch.randn(8192, 8192, device=args.device, dtype=args.type) for _ in range(2))
    figures = []
    for body in (lambda: b.copy_(a), lambda: torch.mm(x, w)):
        for _ in range(3):
            body()
        synchronize(args)
        start = time.monotonic()
        for _ in range(10):
            body()
        synchronize(args)
        figures.append((time.monotonic() - start) / 10)
    say({"measured_memory_gb_s": round(2 * a.numel() / figures[0] / 1e9), "measured_tflop_s": round(2 * 8192**3 / figures[1] / 1e12),
         "torch": torch.__version__, "device": torch.cuda.get_device_name()})


# --- BART in plain PyTorch ----------------------------------------------------------------------------------------------------


class Bart:
    def __init__(self, args):
        self.args = args
        self.layers, self.hidden, self.heads, self.inner, self.vocabulary = SIZES[args.size]
        torch.manual_seed(1)
        self.tokens = self.weight(self.vocabulary, self.hidden)
        self.encoder_positions, self.decoder_positions = (self.weight(POSITIONS + 2, self.hidden) for _ in range(2))
        self.encoder_norm, self.decoder_norm = self.norm(), self.norm()
        self.encoder = [self.layer(False) for _ in range(self.layers)]
        self.decoder = [self.layer(True) for _ in range(self.layers)]

    def weight(self, *shape):
        return torch.randn(*shape, device=self.args.device, dtype=self.args.type) * 0.02

    def linear(self, out, features):
        return self.weight(out, features), self.weight(out)

    def norm(self):
        return torch.ones(self.hidden, device=self.args.device, dtype=self.args.type), self.weight(self.hidden)

    def layer(self, decoder):
        d = self.hidden
        parts = {"qkv": self.linear(3 * d, d), "out": self.linear(d, d), "norm": self.norm(), "fc1": self.linear(self.inner, d),
                 "fc2": self.linear(d, self.inner), "last_norm": self.norm()}
        if decoder:
            parts.update(q=self.linear(d, d), kv=self.linear(2 * d, d), cross_out=self.linear(d, d), cross_norm=self.norm())
        return parts

    def add(self, x, y, norm):
        return F.layer_norm(x + y, (self.hidden,), *norm)

    def split(self, x, parts):
        """[B, T, parts * hidden] to parts of [B, heads, T, head_dim]."""
        b, t, _ = x.shape
        return x.view(b, t, parts, self.heads, -1).permute(2, 0, 3, 1, 4)

    def joined(self, x):
        return x.transpose(1, 2).flatten(2)

    def feed_forward(self, layer, x):
        return self.add(x, F.linear(F.gelu(F.linear(x, *layer["fc1"])), *layer["fc2"]), layer["last_norm"])

    def encode(self, ids, mask):
        """Keys and values for the decoder's layers."""
        x = self.tokens[ids] + self.encoder_positions[2 : ids.shape[1] + 2]
        x = F.layer_norm(x, (self.hidden,), *self.encoder_norm)
        for layer in self.encoder:
            q, k, v = self.split(F.linear(x, *layer["qkv"]), 3)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
            x = self.add(x, F.linear(self.joined(y), *layer["out"]), layer["norm"])
            x = self.feed_forward(layer, x)
        return [self.split(F.linear(x, *layer["kv"]), 2).contiguous() for layer in self.decoder]

    def step(self, s):
        """One token for each sequence; all in place, so that it can be captured."""
        x = (self.tokens[s["ids"]] + self.decoder_positions[2:][s["position"]])[:, None, :]
        x = F.layer_norm(x, (self.hidden,), *self.decoder_norm)
        seen = (torch.arange(s["caches"][0].shape[3], device=x.device) <= s["position"])[None, None, None, :]
        for layer, cache, cross in zip(self.decoder, s["caches"], s["cross"]):
            q, k, v = self.split(F.linear(x, *layer["qkv"]), 3)
            cache[0].index_copy_(2, s["position"], k)
            cache[1].index_copy_(2, s["position"], v)
            y = F.scaled_dot_product_attention(q, cache[0], cache[1], attn_mask=seen)
            x = self.add(x, F.linear(self.joined(y), *layer["out"]), layer["norm"])
            q = self.split(F.linear(x, *layer["q"]), 1)[0]
            y = F.scaled_dot_product_attention(q, cross[0], cross[1], attn_mask=s["mask"][:, None, None, :])
            x = self.add(x, F.linear(self.joined(y), *layer["cross_out"]), layer["cross_norm"])
            x = self.feed_forward(layer, x)
        s["ids"].copy_(F.linear(x[:, 0], self.tokens).argmax(-1))
        s["position"].add_(1)


class PlainBatch:
    def __init__(self, bart, batch):
        self.bart, self.args, self.batch = bart, bart.args, batch
        self.source, mask = sources(self.args, batch)
        head_dim = bart.hidden // bart.heads
        kind = {"device": self.args.device, "dtype": self.args.type}
        self.state = {"ids": torch.zeros(batch, dtype=torch.long, device=self.args.device),
                      "position": torch.zeros(1, dtype=torch.long, device=self.args.device), "mask": mask,
                      "caches": [torch.zeros(2, batch, bart.heads, self.args.new_tokens + 8, head_dim, **kind) for _ in bart.decoder]}
        self.state["cross"] = bart.encode(self.source, mask)
        self.graph = self.capture() if self.args.device.startswith("cuda") else None

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.bart.step(self.state)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.bart.step(self.state)
        return graph

    def __call__(self):
        start = time.monotonic()
        for to, new in zip(self.state["cross"], self.bart.encode(self.source, self.state["mask"])):
            to.copy_(new)
        synchronize(self.args)
        prompts = time.monotonic() - start
        self.state["ids"].fill_(EOS)
        self.state["position"].zero_()
        for _ in range(self.args.new_tokens):
            self.graph.replay() if self.graph else self.bart.step(self.state)
        return self.batch * self.args.new_tokens, prompts


def plain(args):
    bart = Bart(args)
    for batch in args.batches:
        if time.monotonic() > args.end:
            return
        report(args, "torch, SDPA, CUDA graph" if args.device.startswith("cuda") else "torch, SDPA", batch, 1,
               timed(args, PlainBatch(bart, batch)))


# --- HuggingFace's generate ---------------------------------------------------------------------------------------------------


def transformers(args):
    try:
        from transformers import BartConfig, BartForConditionalGeneration
    except ImportError as e:
        print(f"transformers is left out: {e}", file=sys.stderr)
        return
    layers, hidden, heads, inner, vocabulary = SIZES[args.size]
    config = BartConfig(vocab_size=vocabulary, d_model=hidden, encoder_layers=layers, decoder_layers=layers, encoder_ffn_dim=inner,
                        decoder_ffn_dim=inner, encoder_attention_heads=heads, decoder_attention_heads=heads,
                        max_position_embeddings=POSITIONS, attn_implementation="sdpa")
    config.forced_eos_token_id = None
    torch.manual_seed(1)
    model = BartForConditionalGeneration(config).to(args.device, args.type).eval()
    for batch in sorted(args.batches, key=lambda b: b not in (32, 128)):  # those that others publish come first
        if time.monotonic() > args.end:
            return
        ids, mask = sources(args, batch)

        def body():
            out = model.generate(input_ids=ids, attention_mask=mask.long(), max_new_tokens=args.new_tokens,
                                 min_new_tokens=args.new_tokens, do_sample=False, num_beams=args.beams, forced_eos_token_id=None,
                                 cache_implementation="static" if args.beams == 1 else None)
            if out.shape[1] != args.new_tokens + 1:
                raise RuntimeError(f"{out.shape[1] - 1} tokens instead of {args.new_tokens}")
            return batch * args.new_tokens, 0.0

        report(args, "transformers generate, static, compiled" if args.beams == 1 else "transformers generate", batch, args.beams,
               timed(args, body))


def report(args, engine, batch, beams, best):
    seconds, tokens, prompts = best
    row = {"engine": engine, "dtype": args.dtype, "batch": batch, "beams": beams, "tokens_per_second": tokens / seconds,
           "seconds": seconds}
    if prompts:
        row["decode_step_ms"] = (seconds - prompts) / args.new_tokens * 1e3
        row["prompts_ms"] = prompts * 1e3
    say(row)


def main(argv):
    args = parse(argv)
    with torch.inference_mode():
        limits(args)
        failed = False
        for engine in args.engines:
            try:
                {"plain": plain, "transformers": transformers}[engine](args)
            except Exception as e:  # the other one is a baseline too
                print(f"{engine}: {type(e).__name__}: {e}", file=sys.stderr)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
