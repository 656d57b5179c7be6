"""The peak that benchmarks/online/overload.py measures: answers come a batch at a time."""
import importlib.util
import pathlib
import random

import pytest

BENCHMARK = pathlib.Path(__file__).resolve().parents[3] / "benchmarks/online/overload.py"


def load_benchmark():
    spec = importlib.util.spec_from_file_location("overload", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_peak_of_answers_that_come_in_batches():
    """32 clients, a batch of all of them every 2.1 s: 15.24 answers a second, wherever the batches fall in the 12 s."""
    overload = load_benchmark()
    for first in (0.5, 1.9, 1.999, 2.0, 2.1, 3.9):
        done = [first + 2.1 * batch + 0.001 * i for batch in range(5) for i in range(32)]
        assert overload.steady_rate(done, 32) == pytest.approx(32 / 2.1, rel=1e-3)


def test_peak_of_clients_apart_from_each_other():
    overload = load_benchmark()
    for seed in range(20):
        chance = random.Random(seed)
        clients, seconds, mean = 32, 60, 1.7
        done = []
        for _ in range(clients):
            at = chance.uniform(0, mean)
            while at < seconds:
                done.append(at)
                at += chance.gauss(mean, 0.2)
        assert overload.steady_rate(sorted(done), clients) == pytest.approx(clients / mean, rel=0.03), f"seed {seed}"


def test_too_few_answers_are_no_peak():
    with pytest.raises(SystemExit, match="too few"):
        load_benchmark().steady_rate([1.0] * 63, 32)
