"""Models by their id at the hub: the real binary against tests/python/fake_hub.py."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import pytest

from conftest import MODEL, ROOT
from fake_hub import FakeHub, Repository, git_sha1

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


def check_error(result, *words):
    assert result.returncode == 1 and result.stdout == "", result
    message = [line for line in result.stderr.splitlines() if line.startswith("tandem: ")]
    assert len(message) == 1, result.stderr
    for word in words:
        assert word in message[0]


def test_downloads_what_is_read(hub, home, expected):
    result = home.generate()
    assert result.stdout == expected and result.returncode == 0, result.stderr
    commit = hub.repositories[ID].commit
    snapshot = home.repository / "snapshots" / commit
    assert sorted(os.listdir(snapshot)) == READ
    for name in READ:
        assert os.readlink(snapshot / name) == f"../../blobs/{hub.repositories[ID].etag(name)}"
        assert (snapshot / name).read_bytes() == FILES[name]
    assert (home.repository / "refs/main").read_text() == commit
    assert os.listdir(home.repository / ".no_exist" / commit) == ["added_tokens.json"]
    assert not [name for name in home.blobs() if name.endswith(".incomplete")]
    assert len(list((home.folder / "hf/hub/.locks/models--tandem--demo-model").iterdir())) == len(READ)
    for name in READ:  # a line for each file
        assert len([line for line in result.stderr.splitlines() if f" {name} is here" in line]) == 1
    assert not (home.folder / "hf/evil").exists() and not list(home.folder.rglob("evil*"))
    # The second time one question is enough.
    before = len(hub.requests())
    assert home.generate().stdout == expected
    assert [r["path"] for r in hub.requests()[before:]] == [f"/api/models/{ID}/revision/main"]


def test_every_command_takes_an_id(hub, home, tmp_path):
    for arguments in (["tokenize", "--model", ID, TEXT], ["inspect", ID],
                      ["encode", "--model", ID, TEXT], ["score", "--model", ID, "a", "b"],
                      ["bench", "throughput", "--model", ID, "--num-prompts", "1", "--output-len", "2"]):
        result = home.tandem(*arguments)
        assert result.returncode == 0 and result.stdout, (arguments, result.stderr)
        if arguments[0] == "tokenize":  # weights are not for it
            assert not hub.requests(part="model.safetensors")
    assert sent(hub) == [(200, len(WEIGHTS))]
    # A directory wins, and needs nobody.
    before = len(hub.requests())
    os.symlink(MODEL, tmp_path / "demo-model")
    assert subprocess.run([BINARY, "inspect", "demo-model"], cwd=tmp_path, env=home.environment(),
                          capture_output=True).returncode == 0
    assert len(hub.requests()) == before


def test_serves_under_the_id(hub, home, expected):
    with open(home.folder / "log", "w") as log:
        server = subprocess.Popen([BINARY, "serve", ID, "--dtype", "float32", "--port", "0", "--client-port", "0",
                                   "--revision", "v1", "--download-dir", str(home.folder / "elsewhere")],
                                  env=home.environment(), stderr=log, stdin=subprocess.DEVNULL)
    try:
        deadline = time.time() + 60
        while " ready" not in (text := (home.folder / "log").read_text()):
            assert server.poll() is None and time.time() < deadline, text
            time.sleep(0.05)
        httpx = pytest.importorskip("httpx")
        url = re.search(r"HTTP at (\S+)/\n", text).group(1)
        assert [m["id"] for m in httpx.get(url + "/v1/models").json()["data"]] == [ID]
        answer = httpx.post(url + "/v1/completions", json={"model": ID, "prompt": TEXT, "max_tokens": 8}).json()
        assert answer["model"] == ID
        assert answer["choices"][0]["text"].strip() == expected.strip()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert (home.folder / "elsewhere/models--tandem--demo-model/refs/v1").exists()
    assert not home.repository.exists()


def test_a_signal_ends_a_download(hub, home):
    hub.plan("GET", "model.safetensors", ("stall", 1 << 20))
    server = subprocess.Popen([BINARY, "serve", ID, "--port", "0", "--client-port", "0"], stderr=subprocess.PIPE,
                              env=home.environment(HF_HUB_DOWNLOAD_TIMEOUT="60"))
    while not sent(hub) or sent(hub)[0][1] < 1 << 20:
        assert server.poll() is None
        time.sleep(0.02)
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0
    partial = [p for p in (home.repository / "blobs").iterdir() if p.name.endswith(".incomplete")]
    assert len(partial) == 1
    # And it goes on from there.
    size = partial[0].stat().st_size
    assert 0 < size <= 1 << 20
    assert home.tandem("inspect", ID).returncode == 0
    assert sent(hub)[1] == (206, len(WEIGHTS) - size)


@pytest.mark.parametrize("action", [("cut", 5_000_000), ("stall", 5_000_000)])
def test_resumes_within_a_process(hub, home, expected, action):
    hub.plan("GET", "model.safetensors?", action)
    result = home.generate()
    assert result.stdout == expected, result.stderr
    assert "trying again in 0.5 s" in result.stderr
    first, second = hub.requests("cdn", "GET", "model.safetensors")
    begin = int(second["range"].removeprefix("bytes=").removesuffix("-"))
    assert first["range"] is None and 0 < begin <= 5_000_000
    assert second["status"] == 206 and second["sent"] == len(WEIGHTS) - begin


def test_resumes_what_another_process_left(hub, home, expected):
    hub.plan("GET", "model.safetensors?", *[("cut", 2_000_000 if i == 0 else 0) for i in range(6)])
    result = home.generate()
    check_error(result, ID, "not in the cache")
    begin = sum(p.stat().st_size for p in (home.repository / "blobs").iterdir() if p.name.endswith(".incomplete"))
    assert 0 < begin <= 2_000_000
    assert not (home.repository / "refs/main").exists()
    hub.plans.clear()
    hub.log.clear()
    assert home.generate().stdout == expected
    assert sent(hub) == [(206, len(WEIGHTS) - begin)]


def test_no_ranges_and_nothing_more(hub, home, expected):
    """A server that sends all of it again; one that says 416; a rest that is damaged; one that is too long."""
    blob = home.repository / "blobs" / hub.repositories[ID].etag("model.safetensors")
    partial = pathlib.Path(str(blob) + ".incomplete")
    blob.parent.mkdir(parents=True)
    for rest, action, answers in (
            (WEIGHTS[:100_000], ("whole",), [(200, len(WEIGHTS))]),
            (WEIGHTS[:100_000], ("status", 416, {}), [(416, 0), (200, len(WEIGHTS))]),
            (b"x" * 100_000, "ok", [(206, len(WEIGHTS) - 100_000), (200, len(WEIGHTS))]),
            (WEIGHTS + b"x", "ok", [(200, len(WEIGHTS))]),
            (WEIGHTS, "ok", [])):
        blob.unlink(missing_ok=True)
        partial.write_bytes(rest)
        hub.log.clear()
        hub.plans.clear()
        hub.plan("GET", "model.safetensors?", action)
        assert home.generate().stdout == expected
        assert [(s, n if s != 416 else 0) for s, n in sent(hub)] == answers, action
        assert blob.read_bytes() == WEIGHTS and not partial.exists()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_checksum(hub, home, name):
    hub.plan("GET", name, *[("damage",) if name == "config.json" else "ok"])
    hub.plan("GET", name + "?", ("damage",))
    check_error(home.generate(), name, "checksum", hub.repositories[ID].etag(name), "deleted")
    assert not [b for b in home.blobs() if b.startswith(hub.repositories[ID].etag(name))]
    hub.plans.clear()
    assert home.generate().returncode == 0


def test_more_bytes_than_named(hub, home):
    hub.plan("GET", "model.safetensors?", ("body", WEIGHTS + b"more"))
    check_error(home.generate(), "model.safetensors", "more comes")


def test_passing_trouble(hub, home, expected):
    hub.plan("GET", "/api/models", ("status", 503, {}), ("status", 429, {"Retry-After": "1"}))
    hub.plan("HEAD", "config.json", ("status", 500, {}))
    hub.plan("GET", "model.safetensors?", ("status", 502, {}), ("cut", 0))
    begun = time.monotonic()
    result = home.generate()
    assert result.stdout == expected, result.stderr
    assert time.monotonic() - begun > 2.5
    assert "503; trying again in 0.5 s" in result.stderr and "429; trying again in 1 s" in result.stderr
    assert [r["status"] for r in hub.requests("hub", "GET", "/api/models")] == [503, 429, 200]


def test_lasting_trouble_is_bounded(hub, home):
    hub.plan("GET", "/api/models", *[("status", 500, {})] * 9)
    check_error(home.generate(), ID, "500")
    assert len(hub.requests()) == 5
    hub.plans.clear()
    hub.plan("GET", "/api/models", ("status", 429, {"Retry-After": "3600"}))
    check_error(home.generate(), ID, "429")
    assert len(hub.requests()) == 6


@pytest.mark.parametrize("body", [b'{"sha": "', b"[]", b'{"sha": "../../x", "siblings": []}', b"[" * 100_000,
                                  b'{"sha": "' + b"a" * 40 + b'"}', b"<html>"])
def test_answers_of_something_else(hub, home, body):
    hub.plan("GET", "/api/models", ("body", body))
    check_error(home.generate(), "does not answer as a hub does")


def test_list_that_breaks_off(hub, home, expected):
    hub.plan("GET", "/api/models", ("cut", 30))
    assert home.generate().stdout == expected


def test_who_may_read(hub, home, expected):
    hub.repositories["tandem/private"] = Repository(FILES, token="hf_good")
    hub.repositories["tandem/gated"] = Repository(FILES, token="hf_good", gated=True)
    check_error(home.generate(model="tandem/private"), "tandem/private", "neither a directory")
    check_error(home.generate(model="tandem/nothing"), "tandem/nothing", "401", "HF_TOKEN", "none is set")
    check_error(home.generate(model="tandem/gated"), "gated", hub.url + "/tandem/gated", "HF_TOKEN", "none is set")
    check_error(home.generate(model="tandem/gated", HF_TOKEN="hf_bad"), "gated", "does not do")
    check_error(home.generate("--revision", "v2"), ID, 'revision "v2"')
    check_error(home.generate("--revision", "../x"), "--revision", "../x")
    for name in ("no/such/model", "/nowhere", "a--b", "no..where", str(MODEL / "config.json")):
        check_error(home.generate(model=name), "model", name, "neither a directory nor the id")
    before = len(hub.requests())
    assert home.generate(model="tandem/private", HF_TOKEN=" hf_good\n").stdout == expected
    (home.folder / "hf").mkdir(exist_ok=True)
    (home.folder / "hf/token").write_text("hf_good\n")
    assert home.generate(model="tandem/gated").stdout == expected
    (home.folder / "token").write_text("hf_other")
    result = home.generate("--download-dir", str(home.folder / "c"), HF_TOKEN_PATH=str(home.folder / "token"))
    assert result.stdout == expected
    # The hub gets the token, nobody else does.
    after = hub.requests()[before:]
    assert {r["token"] for r in after if r["server"] == "hub"} == {"Bearer hf_good", "Bearer hf_other"}
    assert {r["token"] for r in after if r["server"] == "cdn"} == {None}
    assert "hf_other" not in result.stderr and "signature" not in result.stderr


def test_redirects(hub, home, expected):
    hub.repositories["old-name"] = Repository({}, renamed=ID)
    assert home.generate(model="old-name", HF_TOKEN="hf_x").stdout == expected
    assert (home.folder / "hf/hub/models--old-name/refs/main").exists()
    # Metadata from another host do without the token as well.
    hub.plan("GET", "/api/models", ("redirect", hub.cdn_url + "/" + ID + "/config.json"))
    check_error(home.generate("--revision", "v1", HF_TOKEN="hf_x"), "does not answer as a hub")
    assert [r["token"] for r in hub.requests("cdn", part="config.json")] == [None]
    for address in ("file:///etc/passwd", "ftp://127.0.0.1/x", hub.url + "/api/models/x"):
        hub.plans.clear()
        hub.plan("GET", "/api/models", *[("redirect", address)] * 20)
        check_error(home.generate("--revision", "v1"), "redirected")


def test_offline(hub, home, expected):
    check_error(home.generate(HF_HUB_OFFLINE="1"), ID, "main", "HF_HUB_OFFLINE", "not in the cache", str(home.folder))
    assert not hub.requests()
    assert home.generate().returncode == 0
    commit = hub.repositories[ID].commit
    hub.log.clear()
    assert home.generate(HF_HUB_OFFLINE="1").stdout == expected
    assert home.generate("--revision", commit, TRANSFORMERS_OFFLINE="YES").stdout == expected
    assert not hub.requests()
    check_error(home.generate("--revision", "v1", HF_HUB_OFFLINE="1"), "v1", "not in the cache")
    # What is there only in part says so.
    (home.repository / "snapshots" / commit / "model.safetensors").unlink()
    check_error(home.generate(HF_HUB_OFFLINE="1"), "model.safetensors is missing")
    assert home.tandem("tokenize", "--model", ID, TEXT, HF_HUB_OFFLINE="1").returncode == 0
    assert home.generate().stdout == expected
    assert sent(hub) == []  # the blob was still there


def test_unreachable_with_a_cache(hub, home, expected):
    assert home.generate().stdout == expected
    nobody = "http://127.0.0.1:1"
    result = home.generate(HF_ENDPOINT=nobody)
    assert result.stdout == expected and "using what is in the cache" in result.stderr
    # A newer commit that does not come: the old one goes on, and is still what "main" means.
    old = hub.repositories[ID].commit
    config = json.loads(FILES["config.json"])
    hub.repositories[ID].files["config.json"] = json.dumps(config).encode()
    assert hub.repositories[ID].commit != old
    hub.plan("GET", "config.json", *[("cut", 0)] * 6)
    result = home.generate()
    assert result.stdout == expected and "using what is in the cache" in result.stderr
    assert (home.repository / "refs/main").read_text() == old
    # Then it comes: one file.
    hub.plans.clear()
    hub.log.clear()
    assert home.generate().stdout == expected
    assert [r["path"].rsplit("/")[-1] for r in hub.requests(method="GET")] == ["main", "config.json"]
    assert (home.repository / "refs/main").read_text() == hub.repositories[ID].commit
    check_error(home.generate(model="other/model", HF_ENDPOINT=nobody), "other/model", "not in the cache")
    check_error(home.generate(model="other/model", HF_ENDPOINT="htp:/x"), "HF_ENDPOINT")


def test_two_at_once(hub, home, expected):
    hub.plan("GET", "model.safetensors?", ("stall", 3_000_000), ("cut", 1_000_000))
    processes = [subprocess.Popen([BINARY, *GENERATE, "--model", ID, TEXT], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=home.environment()) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert out == expected, err
    assert sum(n for _, n in sent(hub)) <= len(WEIGHTS) + 1_000_000 + 3_000_000
    assert len([1 for status, n in sent(hub) if status == 200]) == 1
    assert sorted(home.blobs()) == sorted(hub.repositories[ID].etag(n) for n in READ)


def test_shards(hub, home):
    """Two shards that are named by an index, one of which is no name."""
    def repository(*names):
        index = {"metadata": {}, "weight_map": {f"t{i}": n for i, n in enumerate(names)}}
        return Repository({"config.json": FILES["config.json"], "a.safetensors": b"a" * 3_000_000, "b.safetensors": b"b",
                           "model.safetensors.index.json": json.dumps(index).encode()}, lfs=["a.safetensors"])

    hub.repositories["s"] = repository("a.safetensors", "b.safetensors", "a.safetensors")
    result = home.tandem("inspect", "s")
    assert "a.safetensors" in result.stderr and result.returncode == 1  # downloaded; they are no tensors
    snapshot = home.folder / "hf/hub/models--s/snapshots" / hub.repositories["s"].commit
    assert sorted(os.listdir(snapshot)) == ["a.safetensors", "b.safetensors", "config.json", "model.safetensors.index.json"]
    for bad in ("../../../../evil", "/tmp/evil", "sub/x", "..", "c.safetensors", "x\ny", ".hidden"):
        hub.repositories["s"] = repository("a.safetensors", bad)
        check_error(home.tandem("inspect", "s"), "weight_map")
    assert not list(home.folder.rglob("evil*"))


def test_pickle_only_without_safetensors(hub, home):
    hub.repositories["p"] = Repository({"config.json": FILES["config.json"], "pytorch_model.bin": b"x"})
    home.tandem("inspect", "p")
    assert git_sha1(b"x") in os.listdir(home.folder / "hf/hub/models--p/blobs")
    hub.repositories["q"] = Repository({"config.json": FILES["config.json"], "tf_model.h5": b"x"})
    check_error(home.tandem("inspect", "q"), "no weights")


def test_what_cannot_be_written(hub, home, expected, tmp_path):
    (tmp_path / "file").write_text("")
    check_error(home.generate("--download-dir", str(tmp_path / "file")), "cannot write", str(tmp_path / "file"))

    def bounded():  # as a full disk, for this process
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, 4_000_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    result = subprocess.run([BINARY, *GENERATE, "--model", ID, TEXT], capture_output=True, text=True,
                            env=home.environment(), preexec_fn=bounded, restore_signals=False, timeout=120)
    check_error(result, "cannot write", ".incomplete", "File too large")
    hub.log.clear()
    assert home.generate().stdout == expected
    assert sent(hub) == [(206, len(WEIGHTS) - 4_000_000)]


def test_cache_is_huggingfaces(hub, home, expected, monkeypatch):
    """What Tandem fetched is there for huggingface_hub without the network, and the other way round."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert home.generate().stdout == expected
    cache = home.folder / "hf/hub"
    path = huggingface_hub.snapshot_download(ID, cache_dir=cache, local_files_only=True)
    assert sorted(os.listdir(path)) == READ
    assert huggingface_hub.hf_hub_download(ID, "config.json", cache_dir=cache, local_files_only=True).startswith(path)
    assert huggingface_hub.try_to_load_from_cache(ID, "added_tokens.json", cache_dir=cache) is \
        huggingface_hub._CACHED_NO_EXIST
    [repository] = huggingface_hub.scan_cache_dir(cache).repos
    assert repository.repo_id == ID and repository.nb_files == len(READ)
    # Theirs, resumed where we were cut off; then ours, without the network.
    other = home.folder / "other"
    hub.plan("GET", "model.safetensors?", *[("cut", 2_000_000 if i == 0 else 0) for i in range(5)])
    assert home.generate("--download-dir", str(other)).returncode == 1
    hub.plans.clear()
    hub.log.clear()
    theirs = huggingface_hub.snapshot_download(ID, cache_dir=other, endpoint=hub.url, allow_patterns=READ)
    assert sorted(os.listdir(theirs)) == READ
    assert home.generate("--download-dir", str(other), HF_HUB_OFFLINE="1").stdout == expected
