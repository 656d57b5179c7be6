"""Models by their id at the hub: what is fetched, from whom, and where it lies."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import MODEL
from fake_hub import Repository, git_sha1
from hub_home import BINARY, FILES, ID, READ, TEXT, WEIGHTS, check_error, expected, home, hub, sent


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
    assert sorted(os.listdir(home.repository / ".no_exist" / commit)) == [
        "added_tokens.json", "preprocessor_config.json", "processor_config.json", "sentencepiece.bpe.model", "source.spm",
        "spiece.model", "target.spm", "target_vocab.json", "vocab-src.json", "vocab-tgt.json"]
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
                      ["bench", "throughput", "--model", ID, "--num-prompts", "1"]):
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
        answer = httpx.post(url + "/v1/completions", json={"model": ID, "prompt": TEXT, "max_new_tokens": 8}).json()
        assert answer["model"] == ID
        assert answer["choices"][0]["text"].strip() == expected.strip()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert (home.folder / "elsewhere/models--tandem--demo-model/refs/v1").exists()
    assert not home.repository.exists()


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
    hub.repositories["new-way"] = Repository(FILES, resolve_cache=True)
    assert home.generate(model="new-way", HF_TOKEN="hf_x").stdout == expected
    assert {r["token"] for r in hub.requests("hub", part="resolve-cache")} == {"Bearer hf_x"}
    # Metadata from another host do without the token as well.
    hub.plan("GET", "/api/models", ("redirect", hub.cdn_url + "/" + ID + "/config.json"))
    check_error(home.generate("--revision", "v1", HF_TOKEN="hf_x"), "does not answer as a hub", status=1)
    assert [r["token"] for r in hub.requests("cdn", part="config.json")] == [None]
    for address in ("file:///etc/passwd", "ftp://127.0.0.1/x", hub.url + "/api/models/x"):
        hub.plans.clear()
        hub.plan("GET", "/api/models", *[("redirect", address)] * 20)
        check_error(home.generate("--revision", "v1"), "redirected", status=1)


def test_offline(hub, home, expected):
    check_error(home.generate(HF_HUB_OFFLINE="1"), ID, "main", "HF_HUB_OFFLINE", "not in the cache", str(home.folder),
                f"hf download {ID} --local-dir DIR")
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


def test_shards(hub, home):
    """Two shards that are named by an index, one of which is no name."""
    def repository(*names):
        index = {"metadata": {}, "weight_map": {f"t{i}": n for i, n in enumerate(names)}}
        return Repository({"config.json": FILES["config.json"], "a.safetensors": b"a" * 3_000_000, "b.safetensors": b"b",
                           "model.safetensors.index.json": json.dumps(index).encode()}, lfs=["a.safetensors"])

    hub.repositories["s"] = repository("a.safetensors", "b.safetensors", "a.safetensors")
    result = home.tandem("inspect", "s")
    assert "a.safetensors" in result.stderr and result.returncode == 2  # downloaded; they are no tensors
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
    # Theirs, where we were cut off (older versions go on from there); then ours, without the network.
    other = home.folder / "other"
    hub.plan("GET", "model.safetensors?", *[("cut", 2_000_000 if i == 0 else 0) for i in range(5)])
    assert home.generate("--download-dir", str(other)).returncode == 1
    hub.plans.clear()
    hub.log.clear()
    theirs = huggingface_hub.snapshot_download(ID, cache_dir=other, endpoint=hub.url, allow_patterns=READ)
    assert sorted(os.listdir(theirs)) == READ
    assert home.generate("--download-dir", str(other), HF_HUB_OFFLINE="1").stdout == expected
    # File by file, as transformers does.
    for name in READ:
        huggingface_hub.hf_hub_download(ID, name, cache_dir=home.folder / "third", endpoint=hub.url)
    assert home.generate("--download-dir", str(home.folder / "third"), HF_HUB_OFFLINE="1").stdout == expected
