"""W3C Trace Context: a caller's trace goes through the answer and the log."""
import re
import time

import openai

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_trace_is_kept(start_server, texts):
    server = start_server()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    answer = client.completions.with_raw_response.create(
        model="demo-model", prompt=texts[0], max_tokens=4,
        extra_headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"})
    span = re.fullmatch(f"00-{TRACE}-([0-9a-f]{{16}})-01", answer.headers["traceresponse"]).group(1)
    assert span != PARENT
    line = f"id=mine trace={TRACE} span={span} parent={PARENT}\n"
    deadline = time.time() + 30
    while line not in server.log() and time.time() < deadline:
        time.sleep(0.02)
    assert line in server.log()


def test_what_is_none_leaves_no_trace(start_server, texts):
    server = start_server()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    answer = client.completions.with_raw_response.create(
        model="demo-model", prompt=texts[0], max_tokens=4, extra_headers={"traceparent": "00-evil-trace"})
    assert "traceresponse" not in answer.headers
    assert "evil" not in server.log()
