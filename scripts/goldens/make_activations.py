#!/usr/bin/env python3
"""Writes tests/data/activations.json: what the activation functions of transformers make of some numbers, in float32
(torch on a CPU). Only those without weights of their own.

    scripts/goldens/make_activations.py > tests/data/activations.json
"""

import json
import warnings

import torch
from transformers.activations import ACT2CLS, ACT2FN

INPUTS = [-1e4, -120, -88.5, -30, -20.5, -12, -10.5, -6, -5.03125, -4, -3, -2.96875, -2, -1.5, -1, -0.7071, -0.5, -0.25,
          -0.1, -1e-3, -1e-6, 0, 1e-6, 1e-3, 0.1, 0.25, 0.5, 0.7071, 1, 1.5, 2, 2.96875, 3, 4, 5.03125, 6, 6.5, 9.75, 10.5,
          12, 19.5, 20.5, 30, 88.5, 120, 1e4]

warnings.simplefilter("ignore")
x = torch.tensor(INPUTS, dtype=torch.float32)
values = {}
with torch.no_grad():
    for name in sorted(ACT2CLS):
        function = ACT2FN[name]
        if any(True for _ in function.parameters()):
            continue
        values[name] = [float(y) for y in function(x)]
print(json.dumps({"inputs": [float(v) for v in x], "values": values}).replace('], "', '],\n"'))
