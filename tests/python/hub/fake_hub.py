"""A hub on this machine: HuggingFace's protocol as far as downloads use it, with faults on order.

Small files come from the hub itself, large ones (LFS) by a redirect to a second port, which plays the CDN.
"""
import hashlib
import http.server
import json
import socket
import threading
import urllib.parse


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    """files: {name: bytes}; lfs: names of those that are on the CDN; revisions: names beside main."""

    def __init__(self, files, lfs=("model.safetensors",), revisions=(), token=None, gated=False, renamed=None,
                 resolve_cache=False):
        self.files, self.lfs, self.token, self.gated, self.renamed = dict(files), set(lfs), token, gated, renamed
        self.resolve_cache = resolve_cache  # small files by a relative redirect, as from the hub of 2025
        self.revisions = {"main", *revisions}

    @property
    def commit(self):
        """Of what the files are now."""
        return hashlib.sha1(repr(sorted((n, git_sha1(d)) for n, d in self.files.items())).encode()).hexdigest()

    def tree(self):
        entries = []
        for name, data in self.files.items():
            entries.append({"type": "file", "path": name, "size": len(data), "oid": git_sha1(data)})
            if name in self.lfs:
                entries[-1]["lfs"] = {"oid": self.etag(name), "size": len(data), "pointerSize": 130}
        return entries

    def etag(self, name):
        data = self.files[name]
        return hashlib.sha256(data).hexdigest() if name in self.lfs else git_sha1(data)


class FakeHub:
    def __init__(self, repositories):
        self.repositories = repositories
        self.log = []  # of each request: server, method, path, token, range, status, sent
        self.plans = []
        self.names = {}  # in lists of files, instead of the real ones
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.hub, self.cdn = (self._serve(kind) for kind in ("hub", "cdn"))
        self.url = f"http://127.0.0.1:{self.hub.server_port}"
        # The same machine by another name: another origin, in any case by its port.
        self.cdn_url = f"http://localhost:{self.cdn.server_port}"

    def plan(self, method, part, *actions):
        """For the next requests whose path has the part, in order: "ok", ("status", code, headers), ("cut", bytes),
        ("stall", bytes), ("damage",), ("whole",): no ranges, ("body", bytes), ("redirect", address)."""
        self.plans.append((method, part, list(actions)))

    def requests(self, server=None, method=None, part=""):
        with self.lock:
            return [r for r in self.log
                    if server in (None, r["server"]) and method in (None, r["method"]) and part in r["path"]]

    def stop(self):
        self.stopping.set()
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def _serve(self, kind):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                _Answer(fake, self, kind).give()

            do_HEAD = do_GET

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # clients that leave

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server


class _Answer:
    def __init__(self, fake, handler, kind):
        self.fake, self.handler, self.kind, self.action = fake, handler, kind, "ok"
        self.entry = {"server": kind, "method": handler.command, "path": handler.path,
                      "token": handler.headers.get("Authorization"), "range": handler.headers.get("Range"),
                      "status": 0, "sent": 0}
        with fake.lock:
            fake.log.append(self.entry)
            for method, part, actions in fake.plans:
                if method == handler.command and part in handler.path and actions:
                    self.action = actions.pop(0)
                    break

    def give(self):
        name = self.action[0]
        if name == "status":
            return self.send(self.action[1], self.action[2], b"not now")
        if name == "redirect":
            return self.send(302, {"Location": self.action[1]}, b"")
        path = urllib.parse.unquote(self.handler.path.split("?")[0]).lstrip("/")
        if path.startswith("api/resolve-cache/models/"):
            repository_name, commit, name = path.removeprefix("api/resolve-cache/models/").rsplit("/", 2)
            repository = self.fake.repositories[repository_name]
            return self.send(200, {"ETag": f'W/"{repository.etag(name)}"'}, repository.files[name])
        if self.kind == "cdn":
            repository_name, name = path.rsplit("/", 1)
            repository = self.fake.repositories[repository_name]
            return self.send(200, {"ETag": '"something-else"'}, repository.files[name])
        return self.hub(path)

    def hub(self, path):
        api = path.startswith("api/models/")
        kind = "/resolve/" if not api else "/tree/" if "/tree/" in path else "/revision/"
        repository_name, _, rest = path.removeprefix("api/models/").partition(kind)
        repository = self.fake.repositories.get(repository_name)
        if repository is not None and repository.renamed:
            return self.send(307, {"Location": self.handler.path.replace(repository_name, repository.renamed)}, b"")
        if repository is None or (repository.token and not repository.gated and not self.has_token(repository)):
            return self.refuse(401 if repository is None else 404, "RepoNotFound")
        if api:
            if "/additional_chat_templates" in rest:
                return self.refuse(404, "EntryNotFound")
            if rest not in repository.revisions and rest != repository.commit:
                return self.refuse(404, "RevisionNotFound")
            if kind == "/tree/":  # newer versions of huggingface_hub ask for it, Tandem does not
                return self.send(200, {"Content-Type": "application/json"}, json.dumps(repository.tree()).encode())
            names = [*repository.files, "../../evil", "/evil", "README.md\n"]
            answer = {"id": repository_name, "sha": repository.commit, "siblings": [{"rfilename": n} for n in names]}
            return self.send(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())
        commit, _, name = rest.partition("/")
        commit = repository.commit if commit in repository.revisions else commit
        if repository.gated and not self.has_token(repository):
            return self.refuse(401, "GatedRepo")
        if name not in repository.files:
            return self.refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "ETag": f'"{repository.etag(name)}"'}
        data = repository.files[name]
        if name not in repository.lfs and repository.resolve_cache:
            headers.update({"Location": f"/api/resolve-cache/models/{repository_name}/{commit}/{name}?%2Fx=a://b"})
            return self.send(307, {**headers, "X-Linked-Etag": "W/of-the-redirect"}, b"")
        if name not in repository.lfs:
            return self.send(200, headers, data)
        headers.update({"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(data)),
                        "Location": f"{self.fake.cdn_url}/{repository_name}/{name}?signature=secret"})
        return self.send(302, headers, b"")

    def has_token(self, repository):
        return self.handler.headers.get("Authorization") == f"Bearer {repository.token}"

    def refuse(self, status, code, headers=None):
        self.send(status, {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})}, b"{}")

    def send(self, status, headers, data):
        """Ranges and faults are for answers that have the file."""
        h, action = self.handler, self.action[0]
        wanted = h.headers.get("Range")
        if action == "body":
            data = self.action[1]
        elif action == "damage":
            data = bytes([data[0] ^ 1]) + data[1:]
        elif status == 200 and wanted and action != "whole":
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(data):
                status, headers, data = 416, {"Content-Range": f"bytes */{len(data)}"}, b""
            else:
                headers = {**headers, "Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
                status, data = 206, data[begin:]
        self.entry["status"] = status
        h.send_response(status)
        for name, value in headers.items():
            h.send_header(name, value)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        if h.command == "HEAD":
            return
        bound = self.action[1] if action in ("cut", "stall") else len(data)
        while self.entry["sent"] < min(bound, len(data)):
            piece = data[self.entry["sent"]:min(self.entry["sent"] + (1 << 16), bound)]
            h.wfile.write(piece)
            self.entry["sent"] += len(piece)
        if action == "stall":
            self.fake.stopping.wait(30)
        if action in ("cut", "stall"):
            h.close_connection = True
            try:
                h.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
