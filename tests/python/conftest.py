"""A `tandem serve` for the tests: the real binary with the demo model, on a port of its own.

TANDEM_BINARY names the binary (default: build/bin/tandem).
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("TANDEM_LIBRARY", str(ROOT / "build" / "bin" / "libtandem.so"))
# A build with sanitizers has no library, which a Python without them could not load.
_CACHE = pathlib.Path(os.environ["TANDEM_LIBRARY"]).parents[1] / "CMakeCache.txt"
collect_ignore = ["library"] if _CACHE.exists() and re.search(r"^TANDEM_SANITIZE:\w+=\S", _CACHE.read_text(), re.M) else []
MODEL = ROOT / "examples" / "demo-model"
GOLDENS = ROOT / "tests" / "data" / "goldens"
TEXTS = sorted((ROOT / "examples" / "texts").glob("*.txt"))


class Server:
    def __init__(self, directory, *flags, model=MODEL):
        self.log_path = directory / "log"
        (directory / "run").mkdir(mode=0o700)
        binary = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(directory / "run"), TMPDIR=str(directory),
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [binary, "serve", str(model), "--dtype", "float32", "--port", "0", "--client-port", "0", *flags],
                stderr=log, stdin=subprocess.DEVNULL, env=environment)
        deadline = time.time() + 60
        while not re.search(r' ready$|"ready"', self.log(), re.MULTILINE):
            assert self.process.poll() is None and time.time() < deadline, self.log()
            time.sleep(0.02)
        self.url = re.search(r"HTTP at (https?://[^/\s]+)/", self.log()).group(1)

    def log(self):
        return self.log_path.read_text()

    def workers(self):
        """Processes of the worker ranks."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if len(line) > 1 and line[1] == b"worker" and str(self.log_path.parent).encode() in environment:
                found.append(int(entry.name))
        return found

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("server"))
    yield s
    assert s.stop() == 0, s.log()


@pytest.fixture
def start_server(tmp_path):
    """start_server(*flags, model=…): a server of the test's own."""
    servers = []

    def start(*flags, **more):
        directory = tmp_path / str(len(servers))
        directory.mkdir()
        servers.append(Server(directory, *flags, **more))
        return servers[-1]

    yield start
    for s in servers:
        s.stop()


@pytest.fixture(scope="session")
def texts():
    return [path.read_text().strip() for path in TEXTS]


@pytest.fixture(scope="session")
def llm():
    """The demo model in this process. TANDEM_LIBRARY names the library (default: build/bin/libtandem.so)."""
    import tandem_infer

    with tandem_infer.LLM(MODEL, dtype="float32", max_num_seqs=32) as model:
        yield model
