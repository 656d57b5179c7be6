"""tandem serve --config FILE: flags from a file, under variables, under the command line."""
import os
import subprocess

import httpx
import pytest

from conftest import MODEL, ROOT


def test_values_and_precedence(start_server, tmp_path, monkeypatch):
    config = tmp_path / "tandem.toml"
    config.write_text('# a comment\nserved-model-name = ["one", "two"]\napi-key = "k"\ndisable-access-log = true\n'
                      "max-num-seqs = 3\nmax-requests = 1\nmax-body-size = 2000\n")
    monkeypatch.setenv("TANDEM_MAX_BODY_SIZE", "1000")
    server = start_server("--config", str(config), "--max-requests", "7")
    key = {"Authorization": "Bearer k"}
    assert httpx.get(server.url + "/v1/models").status_code == 401
    models = httpx.get(server.url + "/v1/models", headers=key).json()
    assert [m["id"] for m in models["data"]] == ["one", "two"]
    assert "/v1/models" not in server.log()
    # The command line's seven, not the file's one.
    body = {"prompt": ["a b"] * 7, "max_tokens": 2}
    assert httpx.post(server.url + "/v1/completions", json=body, headers=key).status_code == 200
    # The variable's thousand, not the file's two.
    body = {"prompt": "a" * 1500, "max_tokens": 2}
    assert httpx.post(server.url + "/v1/completions", json=body, headers=key).status_code == 413


@pytest.mark.parametrize("text, words", [
    ("modle = 'x'\n", ["modle"]),
    ("[other]\nport = 1\n", ["other"]),
    ("port = 'many'\n", ["port", "many"]),
    ("disable-access-log = [true, false]\n", ["disable-access-log"]),
    ("port: 8000\n", ["NAME = VALUE"]),
    ("max-num-seqs = 'many'\n", ["max-num-seqs", "is not a number"]),
    (None, ["no such file"]),
])
def test_mistakes_are_named(tmp_path, text, words):
    config = tmp_path / "tandem.toml"
    if text is not None:
        config.write_text(text)
    binary = os.environ.get("TANDEM_BINARY", str(ROOT / "build" / "bin" / "tandem"))
    result = subprocess.run([binary, "serve", str(MODEL), "--config", str(config)], capture_output=True, text=True,
                            timeout=60)
    assert result.returncode == 2, result.stderr
    for word in [str(config), *words]:
        assert word in result.stderr
