#!/usr/bin/env python3
"""Decoder steps on paper: bytes, expected time today and with the designs that wait for a device (docs/gpu/designs.md).

    python3 benchmarks/gpu/expected_steps.py [--copy GB/s]

A step is the sum of its kernels. A kernel takes a constant and its bytes at a share of the copy's rate. Both were fitted to what an
H100 measured of BART-large's ops (docs/gpu.md, "Measured"); the table compares the sums with the steps that were measured.
Nothing is measured here.
"""

import argparse
from dataclasses import dataclass

US = 1e-6
NORM, ATTENTION, PRODUCT = 2.4 * US, 4.0 * US, 3.3 * US  # constants of kernels
SELF_RATE, PRODUCT_RATE, HEAD_RATE = 0.74, 0.75, 0.65  # of the copy's rate; cross-attention has all of it
OTHERS = 50 * US  # embeddings, the upload, the choice
PROMPT, NEW = 350, 128  # tokens of the source, and new ones: half of them are there on average


@dataclass
class Model:
    name: str
    width: int
    ffn: int
    layers: int
    vocabulary: int
    gated: bool

    def products(self):
        """(features, inputs) of a decoder layer's products."""
        d = self.width
        return [(3 * d, d), (d, d), (d, d), (d, d), (self.ffn * (2 if self.gated else 1), d), (d, self.ffn)]

    def weights(self):
        return 2 * sum(n * k for n, k in self.products())

    def head(self):
        return 2 * self.vocabulary * self.width

    def keys(self, tokens):
        """Bytes of keys and values of one sequence in one layer."""
        return tokens * 2 * self.width * 2


BART = Model("BART-large", 1024, 4096, 12, 50265, False)
T5_XL = Model("FLAN-T5-XL", 2048, 5120, 24, 32128, True)
MEASURED = {("BART-large", 1): 0.511, ("BART-large", 32): 0.951, ("BART-large", 64): 1.280, ("BART-large", 128): 1.896}  # ms


def bytes_of(m, batch):
    attention = batch * (m.keys(NEW // 2) + m.keys(PROMPT))
    return m.layers * (m.weights() + attention) + m.head()


def attention_time(m, batch, copy):
    own, cross = batch * m.keys(NEW // 2), batch * m.keys(PROMPT)
    return 2 * ATTENTION + own / (SELF_RATE * copy) + cross / copy


def today(m, batch, copy):
    products = sum(PRODUCT + 2 * n * k / (PRODUCT_RATE * copy) for n, k in m.products())
    gate = NORM if m.gated else 0
    head = m.head() / ((HEAD_RATE if batch <= 32 else HEAD_RATE * 64 / (batch + 32)) * copy)
    return m.layers * (products + 3 * NORM + gate + attention_time(m, batch, copy)) + head + OTHERS


def clusters(m, batch, copy):
    """C.4: a constant of 2 us (two cluster barriers and the first bytes), then the bytes at 0.9 of the copy's rate."""
    constant, rate = 2.0 * US, 0.9 * copy
    gain = sum(PRODUCT - constant + 2 * n * k / (PRODUCT_RATE * copy) - 2 * n * k / rate for n, k in m.products())
    return today(m, batch, copy) - m.layers * gain


def one_kernel(m, batch, copy):
    """C.7: the bytes, and what barriers take while no bytes flow."""
    return bytes_of(m, batch) / copy + 8 * m.layers * 0.35 * US


def row(m, batch, copy):
    floor = bytes_of(m, batch) / copy
    ahead = (one_kernel if batch <= 8 else clusters)(m, batch, copy)
    now = today(m, batch, copy)
    measured = MEASURED.get((m.name, batch))
    # (Up to 8 rows have kernels of their own, which these constants are not of.)
    cells = [m.name, str(batch), f"{bytes_of(m, batch) / 1e9:.2f}", f"{floor * 1e3:.2f}", f"{now * 1e3:.2f}" if batch > 8 else "", f"{measured:.2f}" if measured else "",
             f"{floor / (measured * 1e-3 if measured else now):.2f}", f"{ahead * 1e3:.2f}", f"{floor / ahead:.2f}", f"{batch / ahead:,.0f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--copy", type=float, default=2602, help="rate of a copy, bytes read and written, GB/s (2602: measured on an H100)")
    copy = p.parse_args().copy * 1e9
    print("| model | batch | bytes, GB | their time, ms | expected today, ms | measured, ms | share | with designs, ms | share | tokens/s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for m, batches in ((BART, (1, 32, 64, 128)), (T5_XL, (32, 64, 128))):
        for batch in batches:
            print(row(m, batch, copy))


if __name__ == "__main__":
    main()
