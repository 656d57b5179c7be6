"""HTTPS with the unmodified openai package, and what is no TLS."""
import shutil
import socket
import ssl
import subprocess
import urllib.parse

import httpx
import openai
import pytest

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="makes its certificates with openssl")


def make_certificate(directory, name):
    """Signed by itself, so it is its own authority."""
    key, certificate = directory / f"{name}.key", directory / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def tls_server(start_server, tmp_path):
    certificate, key = make_certificate(tmp_path, "server")
    server = start_server("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key), "--header-timeout", "2")
    assert server.url.startswith("https://"), server.url
    server.certificate = certificate
    return server


def client_of(server, authority):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                         http_client=httpx.Client(verify=ssl.create_default_context(cafile=str(authority))))


def connect(server):
    where = urllib.parse.urlsplit(server.url)
    return socket.create_connection((where.hostname, where.port), timeout=30)


def read_to_end(connection):
    received = b""
    try:
        while data := connection.recv(4096):
            received += data
    except ConnectionResetError:
        pass
    return received


def test_openai_over_https(tls_server, texts):
    client = client_of(tls_server, tls_server.certificate)
    whole = client.completions.create(model="demo-model", prompt=texts[0], max_tokens=20)
    stream = client.completions.create(model="demo-model", prompt=texts[0], max_tokens=20, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="demo-model", prompt=texts[0], max_tokens=-1)
    # One that goes away in the middle of a stream.
    with client.completions.create(model="demo-model", prompt=texts[0], max_tokens=400, stream=True,
                                   extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    assert client.models.list().data[0].id == "demo-model"


def test_another_authority_is_refused(tls_server, tmp_path):
    stranger, _ = make_certificate(tmp_path, "stranger")
    with pytest.raises(openai.APIConnectionError) as caught:
        client_of(tls_server, stranger).models.list()
    assert "CERTIFICATE_VERIFY_FAILED" in repr(caught.value.__cause__)
    assert client_of(tls_server, tls_server.certificate).models.list().data


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(tls_server, version):
    context = ssl.create_default_context(cafile=str(tls_server.certificate))
    context.minimum_version = context.maximum_version = version
    assert httpx.get(tls_server.url + "/live", verify=context).status_code == 200


def test_what_is_no_tls_is_closed(tls_server):
    """Plain HTTP and other bytes get no HTTP answer, and disturb nobody."""
    client = client_of(tls_server, tls_server.certificate)
    stream = client.completions.create(model="demo-model", prompt="a", max_tokens=100, stream=True,
                                       extra_body={"ignore_eos": True})
    chunks = iter(stream)
    next(chunks)
    for data in (b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 300, b"\x16\x03\x01\xff\xff" + b"\xff" * 300):
        with connect(tls_server) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert b"HTTP/" not in read_to_end(connection)
    assert sum(1 for _ in chunks) > 10
    assert tls_server.process.poll() is None


def test_slow_handshakes_are_cut(tls_server):
    """Connections that shake no hands, or half of them, end after the header's time; others are served meanwhile."""
    silent = [connect(tls_server) for _ in range(40)]
    halves = [connect(tls_server) for _ in range(10)]
    for connection in halves:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the first bytes of a ClientHello
    # One after the other they would take 100 s.
    client = client_of(tls_server, tls_server.certificate).with_options(timeout=30)
    assert client.completions.create(model="demo-model", prompt="a", max_tokens=10).usage.completion_tokens > 0
    for connection in silent + halves:
        assert b"HTTP/" not in read_to_end(connection)  # ends within the socket's 30 s: the server has closed
        connection.close()
    assert "http_connections" in httpx.get(tls_server.url + "/metrics", verify=ssl.create_default_context(
        cafile=str(tls_server.certificate))).text
