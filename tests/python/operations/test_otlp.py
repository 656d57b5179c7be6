"""Traces and metrics that `tandem serve` sends to a collector of OpenTelemetry's."""
import re
import socket
import time

import httpx
import openai
import pytest

from collector import Collector, attributes

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector():
    c = Collector()
    yield c
    c.stop()
    assert not c.errors


@pytest.fixture
def quick(monkeypatch):
    """Spans and metrics do not wait for others."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")


def complete(server, text, **more):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    return client.completions.with_raw_response.create(model="demo-model", prompt=text, **more)


def test_spans_of_a_request(start_server, collector, quick, texts, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "summaries")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test%2Cone")
    server = start_server("--otlp-traces-endpoint", collector.url)
    before = time.time_ns()
    answer = complete(server, texts[0], max_tokens=6, temperature=0, top_p=0.5,
                      extra_headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"})
    after = time.time_ns()
    usage = answer.parse().usage
    named = collector.wait(lambda: {s.name: s for s in collector.spans()} if len(collector.spans()) >= 5 else None)
    assert set(named) == {"POST /v1/completions", "llm_request", "queue", "prefill", "decode"}

    http, prompt = named["POST /v1/completions"], named["llm_request"]
    assert {s.trace_id.hex() for s in named.values()} == {TRACE}
    assert len({s.span_id for s in named.values()}) == 5
    assert http.parent_span_id.hex() == PARENT
    assert answer.headers["traceresponse"] == f"00-{TRACE}-{http.span_id.hex()}-01"
    assert http.kind == http.SPAN_KIND_SERVER
    assert prompt.parent_span_id == http.span_id
    assert before <= http.start_time_unix_nano < http.end_time_unix_nano <= after + 10**9
    about = attributes(http.attributes)
    assert about["http.route"] == "/v1/completions"
    assert about["http.response.status_code"] == 200
    assert about["tandem.request_id"] == "mine"

    said = attributes(prompt.attributes)
    assert said["gen_ai.response.model"] == "demo-model"
    assert said["gen_ai.request.id"].startswith("mine")
    assert said["gen_ai.request.max_tokens"] == 6
    assert said["gen_ai.request.temperature"] == 0
    assert said["gen_ai.request.top_p"] == 0.5
    assert said["gen_ai.request.n"] == 1
    assert said["gen_ai.usage.prompt_tokens"] == usage.prompt_tokens
    assert said["gen_ai.usage.completion_tokens"] == usage.completion_tokens
    assert said["gen_ai.response.finish_reasons"] == [answer.parse().choices[0].finish_reason]
    queue, first, whole = (said[f"gen_ai.latency.{name}"] for name in ("time_in_queue", "time_to_first_token", "e2e"))
    assert 0 < queue < first <= whole < 30

    stages = [named[name] for name in ("queue", "prefill", "decode")]
    assert all(s.parent_span_id == prompt.span_id for s in stages)
    assert stages[0].start_time_unix_nano == prompt.start_time_unix_nano
    assert stages[0].end_time_unix_nano == stages[1].start_time_unix_nano
    assert stages[1].end_time_unix_nano == stages[2].start_time_unix_nano
    assert abs(stages[2].end_time_unix_nano - prompt.end_time_unix_nano) < 1000

    resource = attributes(collector.traces[0].resource_spans[0].resource.attributes)
    assert resource["service.name"] == "summaries"
    assert resource["deployment.environment"] == "test,one"
    assert resource["service.version"] and resource["service.instance.id"]
    assert resource["process.pid"] == server.process.pid


def test_a_request_without_a_trace_begins_one(start_server, collector, quick, texts):
    server = start_server("--otlp-traces-endpoint", collector.url)
    answer = complete(server, texts[0], max_tokens=4, extra_headers={"traceparent": "00-evil-trace"})
    trace, span = re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-01", answer.headers["traceresponse"]).groups()
    spans = collector.wait(lambda: collector.spans() if len(collector.spans()) >= 5 else None)
    assert {s.trace_id.hex() for s in spans} == {trace}
    (root,) = [s for s in spans if not s.parent_span_id]
    assert root.span_id.hex() == span
    assert f"trace={trace} span={span}\n" in server.log()
    # A caller that keeps no trace is followed; health checks have none.
    complete(server, texts[0], max_tokens=4, extra_headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    httpx.get(server.url + "/health")
    complete(server, texts[0], max_tokens=4)
    spans = collector.wait(lambda: collector.spans() if len(collector.spans()) >= 10 else None)
    assert len(spans) == 10
    assert TRACE not in {s.trace_id.hex() for s in spans}


def test_metrics_are_those_of_prometheus(start_server, collector, quick, texts, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url + "/")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-scope=mine%20own")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    server = start_server()
    complete(server, texts[0], max_tokens=4)

    def counted():
        metrics = collector.newest_metrics()
        if "tandem:request_success_total" not in metrics:
            return None
        # (The engine's numbers may be those of a moment before the answer.)
        return metrics if metrics["tandem:num_requests_running"].gauge.data_points[0].as_double == 0 else None

    metrics = collector.wait(counted)
    assert not collector.traces
    assert collector.headers[0]["x-scope"] == "mine own"
    assert collector.headers[0]["Content-Encoding"] == "gzip"
    page = httpx.get(server.url + "/metrics").text
    families = set(re.findall(r"^# TYPE (\S+)", page, re.M))
    with_values = {name for name in families if re.search(rf"^{re.escape(name)}(_bucket)?[{{ ]", page, re.M)}
    assert set(metrics) == with_values
    assert len(metrics) > 60
    (success,) = metrics["tandem:request_success_total"].sum.data_points
    assert success.as_double == 1
    assert attributes(success.attributes) == {"finished_reason": "length", "model_name": "demo-model"}
    assert metrics["tandem:request_success_total"].sum.is_monotonic
    (latency,) = metrics["vllm:e2e_request_latency_seconds"].histogram.data_points
    assert latency.count == 1 and sum(latency.bucket_counts) == 1 and latency.sum > 0
    assert len(latency.bucket_counts) == len(latency.explicit_bounds) + 1
    assert metrics["process_resident_memory_bytes"].unit == "By"


def dropped(server):
    page = httpx.get(server.url + "/metrics").text
    return int(re.search(r'tandem:otlp_spans_total{.*result="dropped"} (\d+)', page).group(1))


@pytest.mark.parametrize("silent", [False, True])
def test_a_dead_collector_costs_nothing(start_server, quick, texts, silent, monkeypatch):
    """Its port is closed, or takes connections and says nothing."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if not silent:
            listener.close()
        server = start_server("--otlp-traces-endpoint", f"http://127.0.0.1:{port}",
                              "--otlp-metrics-endpoint", f"http://127.0.0.1:{port}")
        begin = time.time()
        for _ in range(30):
            complete(server, texts[0], max_tokens=2)
        assert time.time() - begin < 20
        assert dropped(server) > 0
        if not silent:
            assert re.search(r"warning \[engine\] traces to http://127.0.0.1:\d+/v1/traces: .*connect", server.log())
        begin = time.time()
        assert server.stop() == 0
        assert time.time() - begin < 15
        assert re.search(r"traces to .*spans have been dropped in all", server.log())
        # Not for every message.
        assert 1 <= server.log().count("traces to http://127.0.0.1") <= 4


def test_spans_survive_a_collector_that_is_away_for_a_while(start_server, collector, quick, texts):
    collector.statuses = [503, 429]
    server = start_server("--otlp-traces-endpoint", collector.url + "/v1/traces")
    complete(server, texts[0], max_tokens=2)
    assert len(collector.wait(lambda: collector.spans())) == 5
    assert dropped(server) == 0
    assert "HTTP status 503" in server.log()
    complete(server, texts[0], max_tokens=2)
    assert server.stop() == 0
    assert len(collector.spans()) == 10, "the last ones go out at the end"
    assert "traces to " + collector.url + "/v1/traces: taken again" in server.log()
