"""A collector of OpenTelemetry's for tests: takes OTLP over HTTP and checks each message against the protocol's schema."""
import base64
import gzip
import http.server
import json
import re
import threading
import time

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

# OTLP writes these in hexadecimal, where proto3's JSON has base64.
IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


def _with_base64_ids(value):
    if isinstance(value, list):
        return [_with_base64_ids(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, inner in value.items():
        if name in IDS:
            assert re.fullmatch(f"[0-9a-f]{{{IDS[name]}}}", inner), (name, inner)
            inner = base64.b64encode(bytes.fromhex(inner)).decode()
        out[name] = _with_base64_ids(inner)
    return out


def attributes(list_):
    """A list of KeyValue as a dictionary."""
    out = {}
    for entry in list_:
        value = getattr(entry.value, entry.value.WhichOneof("value"))
        out[entry.key] = [v.string_value for v in value.values] if hasattr(value, "values") else value
    return out


class Collector:
    """Listens until stop(). `statuses`: of the answers that come first; then 200."""

    def __init__(self, port=0):
        self.traces, self.metrics, self.headers, self.errors, self.statuses = [], [], [], [], []
        self._changed = threading.Condition()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                collector._take(self)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _take(self, request):
        body = request.rfile.read(int(request.headers["content-length"]))
        with self._changed:
            status = self.statuses.pop(0) if self.statuses else 200
            try:
                assert request.headers["content-type"] == "application/json"
                if request.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                if status == 200:
                    self._parse(request.path, json.loads(body))
            except Exception as e:
                self.errors.append(f"{request.path}: {e!r}")
                status = 400
            self.headers.append(dict(request.headers.items()))
            self._changed.notify_all()
        answer = b"{}"
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def _parse(self, path, message):
        if path.endswith("/v1/traces"):
            parsed = json_format.ParseDict(_with_base64_ids(message), ExportTraceServiceRequest())
            self.traces.append(parsed)
        elif path.endswith("/v1/metrics"):
            self.metrics.append(json_format.ParseDict(_with_base64_ids(message), ExportMetricsServiceRequest()))
        else:
            raise ValueError("no such path")

    def wait(self, condition, seconds=30):
        """Until condition() holds; returns what it returns."""
        deadline = time.time() + seconds
        with self._changed:
            while not (result := condition()):
                assert not self.errors, self.errors
                assert time.time() < deadline, "the collector waited in vain"
                self._changed.wait(0.2)
        return result

    def spans(self):
        return [s for m in self.traces for r in m.resource_spans for scope in r.scope_spans for s in scope.spans]

    def newest_metrics(self):
        """{name: Metric} of the last message."""
        if not self.metrics:
            return {}
        return {m.name: m for r in self.metrics[-1].resource_metrics for s in r.scope_metrics for m in s.metrics}

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
