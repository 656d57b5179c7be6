"""Downloads from the hub under faults: of the server, the line, the disk, other processes."""
import json
import pathlib
import resource
import signal
import subprocess
import time

import pytest

from hub_home import BINARY, FILES, GENERATE, ID, READ, TEXT, WEIGHTS, check_error, expected, home, hub, sent


def test_a_signal_ends_a_download(hub, home):
    hub.plan("GET", "model.safetensors?", ("stall", 1 << 20))
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
    check_error(result, ID, "not in the cache", status=1)
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
    check_error(home.generate(), name, "checksum", hub.repositories[ID].etag(name), "deleted", status=1)
    assert not [b for b in home.blobs() if b.startswith(hub.repositories[ID].etag(name))]
    hub.plans.clear()
    assert home.generate().returncode == 0


def test_more_bytes_than_named(hub, home):
    hub.plan("GET", "model.safetensors?", ("body", WEIGHTS + b"more"))
    check_error(home.generate(), "model.safetensors", "more comes", status=1)


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
    check_error(home.generate(), ID, "500", status=1)
    assert len(hub.requests()) == 5
    hub.plans.clear()
    hub.plan("GET", "/api/models", ("status", 429, {"Retry-After": "3600"}))
    check_error(home.generate(), ID, "429", status=1)
    assert len(hub.requests()) == 6


@pytest.mark.parametrize("body", [b'{"sha": "', b"[]", b'{"sha": "../../x", "siblings": []}', b"[" * 100_000,
                                  b'{"sha": "' + b"a" * 40 + b'"}', b"<html>"])
def test_answers_of_something_else(hub, home, body):
    hub.plan("GET", "/api/models", ("body", body))
    check_error(home.generate(), "does not answer as a hub does", status=1)


def test_list_that_breaks_off(hub, home, expected):
    hub.plan("GET", "/api/models", ("cut", 30))
    assert home.generate().stdout == expected


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
    check_error(home.generate(model="other/model", HF_ENDPOINT=nobody), "other/model", "not in the cache",
                "hf download other/model --local-dir DIR", status=1)
    check_error(home.generate(model="other/model", HF_ENDPOINT="htp:/x"), "HF_ENDPOINT")


def test_a_cache_that_cannot_be_written(hub, home, expected):
    assert home.generate().stdout == expected
    files = hub.repositories[ID].files
    files["config.json"] += b"\n"
    (home.repository / "blobs" / (hub.repositories[ID].etag("config.json") + ".incomplete")).mkdir()
    result = home.generate()
    assert result.stdout == expected and "cannot write" in result.stderr
    assert "using what is in the cache" in result.stderr


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
