"""What the tests of the hub share: the real binary with a cache of its own, and a hub of fake_hub.py."""
import os
import subprocess

import pytest

from conftest import MODEL, ROOT
from fake_hub import FakeHub, Repository

BINARY = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))
ID = "tandem/demo-model"
TEXT = "This program watches a folder and copies every new file to another machine."
READ = ["config.json", "generation_config.json", "merges.txt", "model.safetensors", "special_tokens_map.json",
        "tokenizer.json", "tokenizer_config.json", "vocab.json"]
FILES = {path.name: path.read_bytes() for path in sorted(MODEL.iterdir())}
WEIGHTS = FILES["model.safetensors"]
GENERATE = ["generate", "--dtype", "float32", "--max-new-tokens", "8"]


@pytest.fixture(scope="session")
def expected():
    """What the directory says."""
    return subprocess.run([BINARY, *GENERATE, "--model", str(MODEL), TEXT], capture_output=True, text=True,
                          check=True).stdout


@pytest.fixture
def hub():
    fake = FakeHub({ID: Repository({**FILES, "tf_model.h5": b"not read", "pytorch_model.bin": b"neither"},
                                   revisions=["v1", "refs/pr/1"])})
    yield fake
    fake.stop()


class Home:
    """A cache and an environment of the test's own."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.repository = folder / "hf/hub/models--tandem--demo-model"
        (folder / "run").mkdir(mode=0o700)

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("HF_", "HUGGING", "TANDEM_")) and not k.lower().endswith("_proxy")}
        return {**kept, "HF_HOME": str(self.folder / "hf"), "HF_ENDPOINT": self.url,
                "XDG_RUNTIME_DIR": str(self.folder / "run"), "HF_HUB_DOWNLOAD_TIMEOUT": "2", **more}

    def tandem(self, *arguments, **variables):
        return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120,
                              env=self.environment(**variables))

    def generate(self, *flags, model=ID, **variables):
        return self.tandem(*GENERATE, "--model", model, *flags, TEXT, **variables)

    def blobs(self):
        return {p.name: p.read_bytes() for p in (self.repository / "blobs").iterdir()}


@pytest.fixture
def home(tmp_path, hub):
    return Home(tmp_path, hub.url)


def sent(hub, part="model.safetensors"):
    return [(r["status"], r["sent"]) for r in hub.requests("cdn", "GET", part)]


def check_error(result, *words, status=2):
    """status: 2 where starting again does not help, 1 where it may."""
    assert result.returncode == status and result.stdout == "", result
    message = [line for line in result.stderr.splitlines() if line.startswith("tandem: ")]
    assert len(message) == 1, result.stderr
    for word in words:
        assert word in message[0]
