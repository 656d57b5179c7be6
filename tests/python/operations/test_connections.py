"""Connections of strangers, of clients that half-close and of clients that go, against the real server."""
import json
import pathlib
import re
import selectors
import socket
import time

LIVE = b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def connect(server):
    host, port = server.url.split("//")[1].split(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(30)
    return connection


def read_all(connection):
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def ask(server, data, half_close=False):
    with connect(server) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def post(body, path="/v1/completions"):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data


def memory_mib(server, field="VmHWM"):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(field + r":\s+(\d+)", text).group(1)) / 1024


def send_bodies(server, count, size):
    """Sends bodies but for their last byte; the statuses of the answers that come nevertheless."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    data = head + b'{"prompt": "' + b"a" * (size - 13)
    selector = selectors.DefaultSelector()
    statuses, left = [], {}
    for _ in range(count):
        connection = connect(server)
        connection.setblocking(False)
        left[connection] = memoryview(data)
        selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
    deadline = time.time() + 60
    # Until all is sent and no answer has come for a second.
    while left and time.time() < deadline and ((ready := selector.select(1)) or any(left.values())):
        for key, events in ready:
            connection = key.fileobj
            try:
                if events & selectors.EVENT_WRITE:
                    left[connection] = left[connection][connection.send(left[connection][:1 << 18]):]
                    if not left[connection]:
                        selector.modify(connection, selectors.EVENT_READ)
                if events & selectors.EVENT_READ:
                    statuses.append(int(connection.recv(65536)[9:12]))
                    raise ConnectionError
            except BlockingIOError:
                pass
            except (ConnectionError, ValueError):
                selector.unregister(connection)
                del left[connection]
                connection.close()
    return statuses, list(left)


def test_bodies_of_strangers_are_not_kept(start_server):
    server = start_server("--api-key", "k", "--disable-access-log")
    before = memory_mib(server)
    statuses, _ = send_bodies(server, 300, 4 << 20)
    assert set(statuses) == {401}
    assert memory_mib(server) - before < 48


def test_bodies_share_a_budget(start_server):
    server = start_server("--max-body-memory", "32M", "--disable-access-log")
    before = memory_mib(server)
    statuses, open_ones = send_bodies(server, 100, 4 << 20)
    assert set(statuses) == {429} and len(open_ones) <= 8
    assert memory_mib(server) - before < 32 + 48
    for connection in open_ones:
        connection.close()
    deadline = time.time() + 10
    body = post({"prompt": "a" * 1000000, "truncate_prompt_tokens": 8, "max_tokens": 1})
    while ask(server, body, half_close=True)[9:12] != b"200":
        assert time.time() < deadline


def test_silent_connections_keep_nobody_out(start_server):
    server = start_server("--max-connections", "40", "--disable-access-log")
    silent = [connect(server) for _ in range(300)]
    for _ in range(5):
        assert ask(server, LIVE)[9:12] == b"200"
        silent += [connect(server) for _ in range(40)]
    time.sleep(0.2)
    assert ask(server, LIVE.replace(b"/live", b"/v1/models"))[9:12] == b"200"


def test_half_closed_clients_are_answered(server):
    body = {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "num_beams": 4}
    answer = ask(server, post(body), half_close=True)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and b'"completion_tokens":400' in answer
    answer = ask(server, post(dict(body, stream=True)), half_close=True)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and b"data: [DONE]\n\n" in answer


def test_clients_that_close_are_cancelled(start_server):
    server = start_server()

    def under_way():
        answer = ask(server, LIVE.replace(b"/live", b"/status"))
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])["prompts_under_way"]

    connection = connect(server)
    connection.sendall(post({"prompt": ["a"] * 100, "max_tokens": 450, "ignore_eos": True, "num_beams": 4}))
    while under_way() == 0:
        time.sleep(0.01)
    connection.close()
    begun = time.time()
    while under_way() > 0:
        time.sleep(0.01)
    assert time.time() - begun < 3
    assert "(client gone)" in server.log()


def test_clients_write_no_lines_of_the_log(start_server):
    for log_format in "text", "json":
        server = start_server(*(["--log-format", log_format] if log_format == "json" else []))
        ask(server, b"GET /a%0a2026-01-01%1b[31m%c2%9bforged%22 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        log = server.log_path.read_bytes()
        line, = (one for one in log.split(b"\n") if b"forged" in one)
        assert b" 404 " in line and b"GET" in line
        assert b"\x1b" not in log and b"\xc2\x9b" not in log
        if log_format == "json":
            assert json.loads(line)["level"] == "info"


def test_the_path_of_the_model_is_not_shown(server):
    for path in b"/v1/models", b"/status", b"/metrics", b"/version", b"/health", b"/openapi.json":
        assert str(pathlib.Path(__file__).parents[3]).encode() not in ask(server, LIVE.replace(b"/live", path))
    names = json.loads(ask(server, LIVE.replace(b"/live", b"/v1/models")).split(b"\r\n\r\n", 1)[1])
    assert [model["id"] for model in names["data"]] == ["demo-model"]
    assert ask(server, LIVE.replace(b"/live", b"/v1/models/demo%2Dmodel"))[9:12] == b"200"
    assert ask(server, LIVE.replace(b"/live", b"/v1/models/a%2Fb"))[9:12] == b"404"
