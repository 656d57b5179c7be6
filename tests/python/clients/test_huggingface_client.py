"""The unmodified huggingface_hub package: InferenceClient and AsyncInferenceClient against the server as an endpoint."""
import asyncio

import httpx
import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError, OverloadedError, ValidationError

from conftest import GOLDENS, Server
from speech_model import make_whisper, wav


@pytest.fixture(scope="module")
def client(server):
    return InferenceClient(base_url=server.url, token="none")


@pytest.fixture(scope="module")
def hearing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("huggingface-sound")
    s = Server(folder, "--max-body-size", "100000", model=make_whisper(folder / "whisper"))
    yield s
    assert s.stop() == 0, s.log()


@pytest.fixture(scope="module")
def translating(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("huggingface-languages"), "--api-key", "secret", model=GOLDENS / "mbart50-tiny")
    yield s
    assert s.stop() == 0, s.log()


def ours(server, prompt, **params):
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": prompt, **params}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def test_text(client, server, texts):
    for text in texts[:3]:
        want = ours(server, text, max_new_tokens=20)["text"]
        assert client.text_generation(text, max_new_tokens=20) == want
        assert client.text_generation(text, max_new_tokens=20, return_full_text=True) == text + want
    assert client.text_generation(texts[0]) == ours(server, texts[0])["text"], "the model says the length"


def test_details(client, server, texts):
    whole = client.text_generation(texts[0], max_new_tokens=20, details=True, decoder_input_details=True, top_n_tokens=3)
    want = ours(server, texts[0], max_new_tokens=20, logprobs=3, return_token_ids=True)
    details = whole.details
    assert whole.generated_text == want["text"]
    assert [token.id for token in details.tokens] == want["token_ids"] and details.generated_tokens == len(details.tokens)
    assert [token.logprob for token in details.tokens] == want["logprobs"]["token_logprobs"]
    assert "".join(token.text for token in details.tokens if not token.special) == whole.generated_text
    assert all(len(top) == 3 for top in details.top_tokens)
    assert details.top_tokens[0][0]["logprob"] == max(top["logprob"] for top in details.top_tokens[0])
    assert [token.text for token in details.prefill] == ["</s>", "<s>"] and details.prefill[1].logprob < 0
    assert details.finish_reason in ("length", "eos_token")


def test_sampling(client, server, texts):
    one = client.text_generation(texts[0], max_new_tokens=15, do_sample=True, temperature=1.5, seed=3, details=True)
    assert one.details.seed == 3
    assert one.generated_text == ours(server, texts[0], max_new_tokens=15, do_sample=True, temperature=1.5, seed=3)["text"]
    drawn = client.text_generation(texts[0], max_new_tokens=15, temperature=1.5, top_k=40, top_p=0.9, typical_p=0.9, details=True)
    again = client.text_generation(texts[0], max_new_tokens=15, temperature=1.5, top_k=40, top_p=0.9, typical_p=0.9,
                                   seed=drawn.details.seed)
    assert drawn.generated_text == again, "the seed of an answer draws it again"
    best = client.text_generation(texts[0], max_new_tokens=15, temperature=1.5, best_of=3, details=True)
    mean = lambda one: sum(token.logprob for token in one.tokens) / len(one.tokens)  # noqa: E731
    assert len(best.details.best_of_sequences) == 2
    assert all(mean(best.details) >= mean(other) for other in best.details.best_of_sequences)


def test_stop(client, texts):
    text = client.text_generation(texts[0], max_new_tokens=20)
    word = text.split()[2]
    stopped = client.text_generation(texts[0], max_new_tokens=20, stop=[word], details=True)
    assert stopped.generated_text == text[:text.index(word) + len(word)], "the stop string is part of it"
    assert stopped.details.finish_reason == "stop_sequence"


def test_streams(client, texts):
    for text in texts[:3]:
        whole = client.text_generation(text, max_new_tokens=20, details=True)
        events = list(client.text_generation(text, max_new_tokens=20, details=True, stream=True))
        assert [event.token.id for event in events] == [token.id for token in whole.details.tokens]
        assert [event.token.text for event in events] == [token.text for token in whole.details.tokens]
        assert [event.index for event in events] == list(range(1, len(events) + 1))
        assert all(event.generated_text is None and event.details is None for event in events[:-1])
        assert events[-1].generated_text == whole.generated_text
        assert events[-1].details.finish_reason == whole.details.finish_reason and events[-1].details.input_length > 5
        pieces = list(client.text_generation(text, max_new_tokens=20, stream=True))
        assert pieces == [event.token.text for event in events]


def test_routes_of_their_own(server, texts):
    body = {"inputs": texts[0], "parameters": {"max_new_tokens": 12}}
    whole = httpx.post(server.url + "/generate", json=body, timeout=60).json()
    assert whole == {"generated_text": ours(server, texts[0], max_new_tokens=12)["text"]}
    with httpx.stream("POST", server.url + "/generate_stream", json=body, timeout=60) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = [line for line in stream.iter_lines() if line]
    assert all(event.startswith("data: {") for event in events), "no [DONE]"
    info = InferenceClient(model=server.url, provider="hf-inference").get_endpoint_info()
    assert info["model_id"] == "demo-model" and info["max_input_tokens"] == 512
    assert InferenceClient(model=server.url, provider="hf-inference").health_check() is True


def test_tasks(client, server, texts):
    """The root answers under each task's name; /pipeline/TASK under one."""
    for url in (server.url, server.url + "/pipeline/summarization"):
        summary = InferenceClient(url).summarization(texts[0], generate_parameters={"max_length": 15}, truncation="longest_first")
        assert summary.summary_text == ours(server, texts[0], max_length=15)["text"]
    two = httpx.post(server.url + "/pipeline/summarization", json={"inputs": texts[:2], "parameters": {"max_length": 15}}, timeout=60)
    assert two.json() == [{"summary_text": ours(server, text, max_length=15)["text"]} for text in texts[:2]]
    vectors = InferenceClient(server.url + "/pipeline/feature-extraction").feature_extraction(texts[0], normalize=True)
    want = httpx.post(server.url + "/v1/embeddings", json={"input": texts[0]}, timeout=60).json()["data"][0]["embedding"]
    assert vectors.shape == (1, 256) and abs(vectors[0] - want).max() < 1e-6


def test_translation(translating):
    for url in (translating.url, translating.url + "/pipeline/translation"):
        said = InferenceClient(url, token="secret").translation("Das Wetter ist schön.", src_lang="de_DE", tgt_lang="fr_XX")
        want = httpx.post(translating.url + "/v1/translate", headers={"Authorization": "Bearer secret"}, timeout=60,
                          json={"text": "Das Wetter ist schön.", "source_lang": "de_DE", "target_lang": "fr_XX"}).json()
        assert said.translation_text == want["translations"][0]["text"]
        with pytest.raises(HfHubHTTPError) as e:
            InferenceClient(url, token="secret").translation("Hallo", src_lang="de_DE", tgt_lang="xx")
        assert "parameters.tgt_lang" in str(e.value.response.text)
    with pytest.raises(HfHubHTTPError) as e:
        InferenceClient(translating.url, token="wrong").translation("Hallo", src_lang="de_DE", tgt_lang="fr_XX")
    assert e.value.response.status_code == 401


def test_sound(hearing):
    sound = wav(2)
    form = httpx.post(hearing.url + "/v1/audio/transcriptions", files={"file": ("a.wav", sound)}, timeout=60).json()["text"]
    for url in (hearing.url, hearing.url + "/pipeline/automatic-speech-recognition"):
        client = InferenceClient(url, token="none")
        plain = client.automatic_speech_recognition(sound)
        assert plain.text.strip() == form and plain.chunks is None
        timed = client.automatic_speech_recognition(sound, extra_body={"return_timestamps": True})
        assert timed.chunks and all(len(chunk.timestamp) == 2 for chunk in timed.chunks)
        translated = client.automatic_speech_recognition(sound, extra_body={"task": "translate", "generation_parameters": {"num_beams": 2}})
        assert translated.text is not None
        assert len(wav(5)) > 100_000, "a file is not held to the bound of bodies"
        assert client.automatic_speech_recognition(wav(5)).text
        words = client.automatic_speech_recognition(sound, extra_body={"return_timestamps": "word"})
        assert words.chunks is not None and all(len(chunk.timestamp) == 2 for chunk in words.chunks)
        with pytest.raises(HfHubHTTPError) as e:
            client.automatic_speech_recognition(b"no sound at all")
        assert e.value.response.status_code == 422 and e.value.response.json()["error_type"] == "validation"


def test_errors(client, server):
    with pytest.raises(ValidationError, match="parameters.top_p"):
        client.text_generation("a", top_p=2.0)
    with pytest.raises(ValidationError, match="^inputs: .*maximum context length"):
        client.text_generation("word " * 3000)
    with pytest.raises(ValidationError, match="parameters.watermark"):
        client.text_generation("a", watermark=True)
    with pytest.raises(ValidationError, match="parameters.grammar"):
        client.text_generation("a", grammar={"type": "regex", "value": "a*"})
    with pytest.raises(ValidationError, match="parameters.truncate"):
        client.text_generation("a", truncate=0)
    assert client.text_generation("word " * 3000, truncate=100, max_new_tokens=5) is not None
    assert httpx.post(server.url + "/generate", content=b"{", headers={"content-type": "application/json"}).status_code == 422


def test_a_full_server(start_server, texts):
    full = start_server("--max-requests", "1")
    body = {"prompt": texts[0], "max_tokens": 450, "ignore_eos": True, "n": 32, "temperature": 1, "stream": True}
    with httpx.stream("POST", full.url + "/v1/completions", json=body, timeout=60) as stream:
        lines = stream.iter_lines()  # as long as it lives the stream is open
        next(lines)
        with pytest.raises(OverloadedError):
            InferenceClient(base_url=full.url, token="none").text_generation(texts[0])


def test_asynchronous(server, hearing, texts):
    async def all_of_it():
        client = AsyncInferenceClient(base_url=server.url, token="none")
        whole, again = await asyncio.gather(client.text_generation(texts[0], max_new_tokens=20),
                                            client.text_generation(texts[0], max_new_tokens=20, details=True))
        pieces = [piece async for piece in await client.text_generation(texts[0], max_new_tokens=20, stream=True, details=True)]
        assert whole == again.generated_text == pieces[-1].generated_text
        assert (await client.summarization(texts[0])).summary_text
        features = AsyncInferenceClient(server.url + "/pipeline/feature-extraction", token="none")
        assert (await features.feature_extraction(texts[0])).shape == (1, 256)
        assert (await AsyncInferenceClient(hearing.url, token="none").automatic_speech_recognition(wav(2))).text
        with pytest.raises(ValidationError, match="parameters.top_k"):
            await client.text_generation("a", top_k=-5)

    asyncio.run(all_of_it())


def test_chats(client, server, texts):
    answer = client.chat_completion([{"role": "user", "content": texts[0]}], max_tokens=20)
    assert answer.choices[0].message.content == ours(server, texts[0], max_tokens=20)["text"]
