"""locust (PyPI) as it is, against the server: many users at once, no error. docs/serving.md names a second one."""
import csv
import importlib.util
import pathlib
import subprocess
import sys

import pytest

# Not imported: that would put gevent's sockets, threads and event loop under all other tests of this process.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("locust") is None, reason="needs locust")


def test_locust_reports_no_error(start_server, tmp_path):
    server = start_server("--disable-access-log")
    done = subprocess.run(
        [sys.executable, "-m", "locust", "-f", str(pathlib.Path(__file__).with_name("locustfile.py")), "--headless",
         "--users", "24", "--spawn-rate", "24", "--run-time", "6s", "--stop-timeout", "20", "--only-summary",
         "--host", server.url, "--csv", str(tmp_path / "locust"), "--exit-code-on-error", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + server.log()
    with open(tmp_path / "locust_stats.csv") as file:
        rows = {row["Name"]: row for row in csv.DictReader(file)}
    for name in ("/v1/completions", "/v1/chat/completions, streamed", "/score", "/v1/target_scores", "/v1/models", "/tokenize"):
        assert int(rows[name]["Request Count"]) > 0, name
    assert int(rows["Aggregated"]["Failure Count"]) == 0, done.stdout
    assert " error " not in server.log()
