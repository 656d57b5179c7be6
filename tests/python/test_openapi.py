"""Answers of the real server against the schemas of its own /openapi.json, and requests against theirs."""
import base64
import json
import random

import httpx
import jsonschema
import pytest

from conftest import GOLDENS, Server
from speech_model import make_whisper, wav

GERMAN = "Das Wetter ist heute schön, und wir gehen in den Park."
TEXT = {"max_tokens": 6, "logprobs": 2, "return_token_ids": True, "prompt_logprobs": 1}

PDF = "data:application/pdf;base64," + base64.b64encode((GOLDENS.parent / "documents" / "two.pdf").read_bytes()).decode()

# (server, method, path, body): every route is here at least once. A body of bytes is a file of sound.
CASES = [
    ("text", "post", "/v1/completions", {"prompt": "a text", **TEXT}),
    ("text", "post", "/v1/completions", {"prompt": ["a", "b"], "num_beams": 2, "n": 2, "echo": True}),
    ("text", "post", "/v1/completions", {"prompt": "a", "stream": True, "max_tokens": 5, "logprobs": 1,
                                         "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    ("text", "post", "/v1/completions", {"prompt": "a. " * 900, "split": "auto", "merge": "summary", "max_tokens": 5}),
    ("text", "post", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 1,
                                              "return_token_ids": True, "prompt_logprobs": 0, "max_tokens": 5}),
    ("text", "post", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "stream": True, "n": 2,
                                              "logprobs": True, "return_token_ids": True, "max_tokens": 5,
                                              "stream_options": {"include_usage": True}}),
    ("text", "post", "/v1/responses", {"input": "a", "max_output_tokens": 5, "top_logprobs": 2, "metadata": {"a": "b"}}),
    ("text", "post", "/v1/responses", {"input": "a", "stream": True, "max_output_tokens": 5, "top_logprobs": 0}),
    ("text", "post", "/v1/responses", {"input": [{"role": "user", "content": "a"}], "instructions": "i"}),
    ("text", "post", "/", {"inputs": "a"}),
    ("text", "post", "/", {"inputs": ["a", "b"], "parameters": {"num_beams": 2, "num_return_sequences": 2}}),
    ("text", "post", "/", {"inputs": "a", "stream": True, "parameters": {"details": True, "top_n_tokens": 2}}),
    ("hear", "post", "/", {"inputs": "WAV", "parameters": {"return_timestamps": True}}),
    ("text", "post", "/generate", {"inputs": "a"}),
    ("text", "post", "/generate", {"inputs": "a", "parameters": {"details": True, "decoder_input_details": True, "top_n_tokens": 2}}),
    ("text", "post", "/generate", {"inputs": "a", "parameters": {"details": True, "best_of": 3, "temperature": 1.5}}),
    ("text", "post", "/generate_stream", {"inputs": "a", "parameters": {"max_new_tokens": 5}}),
    ("text", "get", "/info", None), ("hear", "get", "/info", None),
    *[("text", "post", "/pipeline/" + task, {"inputs": ["a", "b"], "parameters": {"truncation": "longest_first"}})
      for task in ("summarization", "translation", "text2text-generation", "text-generation")],
    ("text", "post", "/pipeline/feature-extraction", {"inputs": ["a", "b"], "normalize": False}),
    ("hear", "post", "/pipeline/automatic-speech-recognition", {"inputs": "WAV", "parameters": {"return_timestamps": True}}),
    ("hear", "post", "/pipeline/automatic-speech-recognition", wav(1)),
    ("talk", "post", "/v1/translate", {"text": "a", "target_lang": "de_DE"}),
    ("talk", "post", "/v2/translate", {"text": ["a", "b"], "source_lang": "EN", "target_lang": "DE",
                                       "show_billed_characters": True, "model_type": "latency_optimized"}),
    ("talk", "get", "/v2/usage", None), ("talk", "get", "/v2/languages?type=target", None),
    ("talk", "get", "/v2/languages", None), ("talk", "get", "/v2/glossary-language-pairs", None),
    ("talk", "post", "/translate", {"q": GERMAN, "source": "auto", "target": "en", "alternatives": 1}),
    ("talk", "post", "/translate", {"q": [GERMAN], "source": "de", "target": "en"}),
    ("talk", "post", "/detect", {"q": GERMAN}), ("talk", "post", "/detect", {"q": [GERMAN, "x"]}),
    ("talk", "get", "/languages", None), ("talk", "get", "/frontend/settings", None),
    ("text", "post", "/v1/embeddings", {"input": ["a", "b"]}),
    ("text", "post", "/v1/embeddings", {"input": "a", "encoding_format": "base64"}),
    ("text", "post", "/score", {"text_1": "a", "text_2": ["b", "c"]}), ("text", "post", "/v1/score", {"text_1": "a", "text_2": "b"}),
    ("text", "post", "/v1/rerank", {"query": "a", "documents": ["b", {"text": "c"}]}),
    ("text", "post", "/v1/rerank", {"query": "a", "texts": ["b", "c"], "return_text": True}),
    ("text", "post", "/v2/rerank", {"query": "a", "documents": ["b", "c"], "top_n": 1, "return_documents": False}),
    ("text", "post", "/v1/target_scores", {"prompt": "a", "target": ["b", "c"]}),
    *[("hear", "post", path, form) for path in ("/v1/audio/transcriptions", "/v1/audio/translations")
      for form in ({}, {"response_format": "verbose_json", "timestamp_granularities[]": "segment"}, {"stream": "true"},
                   {"stream": "true", "timestamp_granularities[]": "segment"}, {"response_format": "srt"},
                   {"response_format": "vtt"})],
    *[("page", "post", "/v1/chat/completions",
       {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": PDF}}]}], "dpi": 40, "max_tokens": 5, **more})
      for more in ({}, {"stream": True, "pages": "2"})],
    ("page", "post", "/v1/completions", {"prompt": {"prompt": "", "multi_modal_data": {"image": PDF}}, "dpi": 40, "max_tokens": 5}),
    ("adapt", "post", "/v1/load_lora_adapter", {"lora_name": "qv", "lora_path": str(GOLDENS.parent / "lora" / "bart-tiny" / "qv-r4")}),
    ("adapt", "post", "/v1/unload_lora_adapter", {"lora_name": "qv"}),
    ("text", "post", "/tokenize", {"prompt": "a", "return_token_strs": True}),
    ("text", "post", "/tokenize", {"messages": [{"role": "user", "content": "a"}]}),
    ("text", "post", "/detokenize", {"tokens": [5, 6]}),
    *[(server, "get", path, None) for server in ("text", "hear", "talk") for path in ("/v1/models", "/v1/models/{model}")],
    *[("text", "get", path, None) for path in ("/health", "/ping", "/live", "/v2/health/ready", "/v2/health/live", "/version",
                                               "/metrics", "/status", "/openapi.json", "/docs", "/", "/favicon.ico")],
]


@pytest.fixture(scope="module")
def servers(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    hear = Server(folder, model=make_whisper(folder / "whisper"))
    talk = Server(tmp_path_factory.mktemp("openapi-languages"), model=GOLDENS / "mbart50-tiny")
    adapt = Server(tmp_path_factory.mktemp("openapi-adapters"), "--allow-runtime-lora-updating", model=GOLDENS / "bart-tiny")
    page = Server(tmp_path_factory.mktemp("openapi-pages"), model=GOLDENS.parent / "image-models" / "donut-tiny")
    yield {"text": server, "hear": hear, "talk": talk, "adapt": adapt, "page": page}
    assert hear.stop() == 0 and talk.stop() == 0 and adapt.stop() == 0 and page.stop() == 0


@pytest.fixture(scope="module")
def document(server):
    return httpx.get(server.url + "/openapi.json").json()


def check(value, schema, document):
    """Raises where a value is not what the schema says."""
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def send(server, method, path, body):
    model = httpx.get(server.url + "/v1/models").json()["data"][0]["id"]
    url = server.url + path.replace("{model}", model)
    if method == "get":
        return httpx.get(url, timeout=60)
    if isinstance(body, bytes):
        return httpx.post(url, content=body, headers={"content-type": "audio/wav"}, timeout=60)
    if "/audio/" in path:
        return httpx.post(url, data=body, files={"file": ("a.wav", wav(1))}, timeout=60)
    return httpx.post(url, json=body, timeout=60)


def with_sound(body):
    return {**body, "inputs": base64.b64encode(wav(1)).decode()} if isinstance(body, dict) and body.get("inputs") == "WAV" else body


@pytest.mark.parametrize("name, method, path, body", CASES, ids=lambda value: str(value)[:40])
def test_answers(servers, document, name, method, path, body):
    operation = document["paths"][path.partition("?")[0]][method]
    body = with_sound(body)
    if isinstance(body, dict) and "/audio/" not in path:
        check(body, operation["requestBody"]["content"]["application/json"]["schema"], document)
    answer = send(servers[name], method, path, body)
    assert answer.status_code == 200, answer.text
    kind = answer.headers["content-type"].partition(";")[0]
    schema = operation["responses"]["200"]["content"][kind]["schema"]
    if kind == "text/event-stream":
        data = [line[len("data: "):] for line in answer.text.split("\n") if line.startswith("data: ")]
        assert data
        for event in data:
            if event != "[DONE]":
                check(json.loads(event), schema, document)
    else:
        check(answer.json() if kind == "application/json" else answer.text, schema, document)


def is_asked_elsewhere(path):
    """Of files and glossaries: test_deepl.py and test_libretranslate.py. Of labels: tests/server/api/classification_test.cc.
    The WebSocket: test_realtime.py."""
    return path.startswith(("/v2/document", "/v2/glossaries", "/v3/glossaries", "/page/")) or path in (
        "/translate_file", "/download_file/{id}", "/v1/realtime", "/classify", "/v1/classify", "/predict")


def test_every_route_is_among_them(document):
    asked = {(method, path.partition("?")[0]) for _, method, path, _ in CASES}
    assert asked == {(method, path) for path, methods in document["paths"].items() for method in methods
                     if not is_asked_elsewhere(path)}


def damaged(value, draw):
    """A value with something in it replaced."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        name = draw.choice(sorted(value))
        return {**value, name: damaged(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.6:
        at = draw.randrange(len(value))
        return [*value[:at], damaged(value[at], draw), *value[at + 1:]]
    return draw.choice([None, True, 0, -1, 1e300, 2 ** 63, "", "x", "\0", "\ud7ff", [], {}, [[]], {"x": 1}, ["a"] * 50, [None]])


def test_damaged_requests(servers, document):
    """Whatever a client sends: an answer in time, a refusal as the schema says, and the server is there afterwards."""
    draw = random.Random(5)
    posts = [case for case in CASES if case[1] == "post" and isinstance(case[3], dict) and "/audio/" not in case[2]]
    refused = 0
    with httpx.Client(timeout=60) as client:
        for _ in range(400):
            name, method, path, body = draw.choice(posts)
            answer = client.post(servers[name].url + path, json=damaged(with_sound(body), draw))
            assert answer.status_code < 500 and answer.status_code != 424, (path, body, answer.text)
            if answer.status_code >= 400:
                refused += 1
                schema = document["paths"][path][method]["responses"]["default"]["content"]["application/json"]["schema"]
                check(answer.json(), schema, document)
        for server in servers.values():
            assert client.get(server.url + "/health").status_code == 200
            assert client.get(server.url + "/status").json()["prompts_under_way"] == 0
    assert refused > 100


def test_errors(servers, document):
    for name, path, body in (("text", "/v1/completions", {}), ("text", "/generate", {}), ("talk", "/v2/translate", {}),
                             ("talk", "/translate", {}), ("text", "/v1/responses", {"input": "a", "store": True})):
        answer = send(servers[name], "post", path, body)
        assert 400 <= answer.status_code < 500
        check(answer.json(), document["paths"][path]["post"]["responses"]["default"]["content"]["application/json"]["schema"], document)


def test_pages_of_a_document_are_choices(servers):
    body = {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": PDF}}]}], "dpi": 40, "max_tokens": 5}
    answer = send(servers["page"], "post", "/v1/chat/completions", body).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert all(isinstance(choice["message"]["parsed"], dict) for choice in answer["choices"])
    second = send(servers["page"], "post", "/v1/chat/completions", {**body, "pages": "2"}).json()
    assert [c["message"] for c in second["choices"]] == [answer["choices"][1]["message"]]
    for field, value in (("pages", "3"), ("pages", "x"), ("dpi", 5)):
        wrong = send(servers["page"], "post", "/v1/chat/completions", {**body, field: value})
        assert wrong.status_code == 400, wrong.text
