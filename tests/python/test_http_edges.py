"""What proxies, browsers, curl and libraries do beside plain requests: prefixes, compressed bodies, addresses, logs, uploads."""
import gzip
import json
import re
import socket
import struct
import zlib

import httpx
import pytest

from speech_model import make_whisper
from test_connections import memory_mib


def body(**more):
    return json.dumps({"prompt": "a", "max_tokens": 2, **more}).encode()


def test_behind_a_proxy(start_server):
    server = start_server("--root-path", "/below/", "--api-key", "k")
    assert "/below/\n" in re.search(r"HTTP at .*\n", server.log()).group(0)
    key = {"Authorization": "bearer   k"}
    for prefix in ("", "/below"):
        assert httpx.get(server.url + prefix + "/v1/models/", headers=key).json()["data"]
        assert httpx.get(server.url + prefix + "/health").status_code == 200
        assert httpx.get(server.url + prefix + "/openapi.json", headers=key).json()["servers"] == [{"url": "/below"}]
        page = httpx.get(server.url + prefix + "/").text
        assert 'data-root="/below"' in page and 'href="/below/metrics"' in page and "@ROOT@" not in page
    assert httpx.get(server.url + "/belowhealth").status_code == 404


def test_compressed_bodies(server):
    def post(content, coding):
        return httpx.post(server.url + "/v1/completions", content=content, headers={"Content-Encoding": coding})

    raw = zlib.compressobj(wbits=-15)
    for content, coding in ((gzip.compress(body()), "gzip"), (zlib.compress(body()), "deflate"),
                            (raw.compress(body()) + raw.flush(), "deflate"), (body(), "identity")):
        assert post(content, coding).json()["choices"], coding
    bomb = post(gzip.compress(b" " * (64 << 20)), "gzip")
    assert bomb.status_code == 413 and "--max-body-size" in bomb.json()["error"]["message"]
    unknown = post(body(), "br")
    assert unknown.status_code == 415 and unknown.headers["accept-encoding"] == "gzip, deflate"
    assert post(gzip.compress(body())[:-1], "gzip").status_code == 400


def test_an_unknown_coding_ends_the_connection(server):
    host, port = server.url.split("//")[1].split(":")
    evil = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
    for coding, status in ((b"identity", b"501"), (b"gzip, chunked", b"501"), (b"chunked, chunked", b"400")):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + coding + b"\r\n\r\n" + evil)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        assert answer[9:12] == status and answer.count(b"HTTP/1.1 ") == 1, answer


def test_addresses(start_server):
    server = start_server("--host", "localhost")
    assert "--api-key" not in server.log()
    assert httpx.get(server.url + "/health").status_code == 200
    port = int(server.url.rsplit(":", 1)[1])
    reached = 0
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family) as s:
                s.connect((address, port))
                reached += 1
        except OSError as e:
            assert family == socket.AF_INET6 and not isinstance(e, ConnectionRefusedError), e
    assert reached >= 1


def test_strangers_are_warned_of(start_server):
    assert "--api-key" in start_server("--host", "0.0.0.0").log()
    assert "--api-key" not in start_server("--host", "0.0.0.0", "--api-key", "k").log()
    assert "--api-key" not in start_server().log()


def test_access_log_has_fields(start_server):
    server = start_server("--log-format", "json")
    httpx.get(server.url + "/v1/models", headers={"x-request-id": "mine", "traceparent":
                                                  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    httpx.get(server.url + "/no%0A%22where")
    server.stop()
    lines = [json.loads(line) for line in server.log().splitlines()]
    found, missing = [line for line in lines if "status" in line]
    assert found["request_id"] == "mine" and found["method"] == "GET" and found["path"] == "/v1/models"
    assert found["status"] == 200 and found["complete"] is True and found["bytes"] > 0 and found["milliseconds"] >= 0
    assert found["remote"] == "127.0.0.1" and found["parent_id"] == "00f067aa0ba902b7" and found["message"]
    assert found["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736" and len(found["span_id"]) == 16
    assert missing["status"] == 404 and "trace_id" not in missing
    assert "remote" not in lines[0], "other lines have none"


def large_wav(seconds, rate=192000, channels=8):
    """Much data, little sound."""
    size = seconds * rate * channels * 4
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 3, channels, rate,
                       rate * channels * 4, channels * 4, 32, b"data", size)
    return head + bytes(size)


@pytest.mark.parametrize("coding", [None, "gzip"])
def test_uploads_are_not_in_memory(start_server, tmp_path, coding):
    server = start_server("--max-body-memory", "8M", "--max-body-size", "4M", "--disable-access-log",
                          model=make_whisper(tmp_path / "whisper"))
    files = {"file": ("a.wav", large_wav(20))}
    request = httpx.Request("POST", server.url + "/v1/audio/transcriptions", data={"model": "whisper"}, files=files)
    content = request.read()
    assert len(content) > 100 << 20
    headers = {"Content-Type": request.headers["content-type"]}
    if coding:
        content, headers["Content-Encoding"] = gzip.compress(content, 1), coding
    before = memory_mib(server)
    answer = httpx.post(request.url, content=content, headers=headers, timeout=300)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["seconds"] == 20
    assert memory_mib(server) - before < 64
