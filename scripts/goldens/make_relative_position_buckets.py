#!/usr/bin/env python3
"""tests/data/relative_position_buckets.json: T5's buckets as HuggingFace computes them.

    python3 scripts/goldens/make_relative_position_buckets.py > tests/data/relative_position_buckets.json

Each entry has the bucket of every distance from -2 to 2 times max_distance (key position less query position).
"""
import json

import torch
from transformers.models.t5.modeling_t5 import T5Attention

entries = []
for num_buckets, max_distance in [(32, 128), (32, 20), (64, 256), (16, 33), (32, 1000)]:
    for bidirectional in (True, False):
        distances = torch.arange(-2 * max_distance, 2 * max_distance + 1)
        buckets = T5Attention._relative_position_bucket(distances, bidirectional, num_buckets, max_distance)
        entries.append({
            "bidirectional": bidirectional,
            "num_buckets": num_buckets,
            "max_distance": max_distance,
            "buckets": buckets.tolist(),
        })
print("[" + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "]")
