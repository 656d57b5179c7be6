"""vLLM's fields through the openai package and plain HTTP, against the real server."""
import httpx
import openai
import pytest

MODEL = "demo-model"
EOS = 2


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def post(server):
    def send(path, status=200, **body):
        answer = httpx.post(server.url + path, json=body, timeout=60)
        assert answer.status_code == status, answer.text
        return answer.json()

    return send


def complete(post, prompt, **params):
    return post("/v1/completions", prompt=prompt, return_token_ids=True, **params)["choices"]


# --- The reason of the end ----------------------------------------------------------------------

@pytest.mark.parametrize("way", [{"num_beams": 1}, {"num_beams": 1, "temperature": 1.2, "n": 2, "seed": 1},
                                 {"num_beams": 3, "n": 2}])
def test_an_end_that_the_limit_forced_is_length(post, texts, way):
    forced = complete(post, texts[0], max_tokens=4, min_tokens=3, forced_eos_token_id=EOS, **way)
    for choice in forced:
        assert choice["token_ids"][-1] == EOS and len(choice["token_ids"]) == 4
        assert choice["finish_reason"] == "length" and choice["stop_reason"] is None
    own = complete(post, texts[0], max_tokens=4, min_tokens=3, forced_eos_token_id=None, logit_bias={"2": 100}, **way)
    assert [choice["token_ids"][-1] for choice in own] == [EOS] * len(own)
    assert [choice["finish_reason"] for choice in own] == ["stop"] * len(own)


def test_an_end_of_its_own_is_stop(post, texts):
    choice = complete(post, texts[0], max_tokens=200, num_beams=1)[0]
    assert choice["token_ids"][-1] == EOS and choice["finish_reason"] == "stop"


# --- Log-probabilities of the decoder's prompt -----------------------------------------------------

def test_prompt_logprobs_are_those_of_scores(post, texts):
    """The decoder prompt given as a target has the same ones; asked twice, so that caches are warm, and in small pieces."""
    target = post("/tokenize", prompt="A library for things that programs share.")["tokens"]
    score = post("/v1/target_scores", prompt=texts[0], target="A library for things that programs share.")["data"][0]
    assert score["token_ids"] == target
    for n in (1, 2, 1):
        choices = complete(post, texts[0], decoder_prompt=target, max_tokens=3, prompt_logprobs=2, n=n, seed=1,
                           num_beams=1, **({"temperature": 1.0} if n > 1 else {}))
        assert len(choices) == n
        for choice in choices:
            assert choice["prompt_logprobs"] == choices[0]["prompt_logprobs"]
        first, *others = choices[0]["prompt_logprobs"]
        # The decoder starts with a token that the target has not.
        assert first is None and len(others) == len(target)
        for token, logprob, entry in zip(target, score["token_logprobs"], others):
            own = entry[str(token)]
            assert own["logprob"] == pytest.approx(logprob, abs=1e-4)
            assert next(iter(entry)) == str(token) and 2 <= len(entry) <= 3
            ranks = {e["rank"] for e in entry.values()}
            assert {1, 2} <= ranks and own["rank"] in ranks
            assert post("/detokenize", tokens=[token])["prompt"] == own["decoded_token"]


def test_prompt_logprobs_in_chunks_and_with_beams(start_server, post, texts):
    target = post("/tokenize", prompt="A library for things that programs share.")["tokens"]
    wanted = complete(post, texts[0], decoder_prompt=target, max_tokens=2, prompt_logprobs=0)[0]["prompt_logprobs"]
    server = start_server("--max-num-batched-tokens", "3", "--block-size", "2")
    for params in ({"num_beams": 1}, {"num_beams": 3}, {"num_beams": 1}):
        body = {"prompt": texts[0], "decoder_prompt": target, "max_tokens": 2, "prompt_logprobs": 0, **params}
        if params["num_beams"] == 3:  # more tokens than such a step has room for
            body["num_beams"] = 2
        got = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()["choices"][0]["prompt_logprobs"]
        assert [list(e) for e in got[1:]] == [list(e) for e in wanted[1:]]
        for a, b in zip(got[1:], wanted[1:]):
            for token in a:
                assert a[token]["logprob"] == pytest.approx(b[token]["logprob"], abs=1e-4)


def test_prompt_logprobs_of_chats_and_streams(client, post, texts):
    message = [{"role": "user", "content": texts[0]}]
    answer = client.chat.completions.create(model=MODEL, messages=message, max_tokens=3, extra_body={"prompt_logprobs": 1})
    assert answer.model_extra["prompt_logprobs"][0] is None and len(answer.model_extra["prompt_logprobs"]) == 2
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=MODEL, prompt="a", stream=True, extra_body={"prompt_logprobs": 1})
    assert e.value.param == "prompt_logprobs"
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=MODEL, prompt="a", extra_body={"prompt_logprobs": -1})
    assert e.value.param == "prompt_logprobs"


# --- Scores -----------------------------------------------------------------------------------------

def test_scores_are_cosines_of_embeddings(client, post, texts):
    vectors = [e.embedding for e in client.embeddings.create(model=MODEL, input=texts[:3]).data]
    answer = post("/score", model=MODEL, text_1=texts[0], text_2=texts[:3])
    assert answer["object"] == "list" and answer["model"] == MODEL and answer["usage"]["prompt_tokens"] > 0
    for i, score in enumerate(answer["data"]):
        assert score["index"] == i and score["object"] == "score"
        assert score["score"] == pytest.approx(sum(x * y for x, y in zip(vectors[0], vectors[i])), abs=1e-5)
    assert answer["data"][0]["score"] == pytest.approx(1, abs=1e-6) and answer["data"][1]["score"] < 0.999
    pairs = post("/v1/score", queries=texts[:2], documents=texts[1:3])["data"]
    assert pairs[1]["score"] == pytest.approx(sum(x * y for x, y in zip(vectors[1], vectors[2])), abs=1e-5)
    error = post("/v1/score", status=400, text_1="a", text_2="b", append_eos=True)["error"]
    assert "/v1/target_scores" in error["message"] and error["param"] == "append_eos"


# --- Which tokens may be generated ------------------------------------------------------------------

@pytest.mark.parametrize("way", [{"num_beams": 1}, {"num_beams": 1, "temperature": 0.7, "n": 2, "seed": 1},
                                 {"num_beams": 4, "n": 2}])
def test_bad_words(post, texts, way):
    for text in texts[:3]:
        plain = complete(post, text, max_tokens=20, **way)
        words = [word for word in plain[0]["text"].split() if word.isalpha()][:3]
        assert words
        for choice in complete(post, text, max_tokens=20, bad_words=words, **way):
            assert not set(words) & set(choice["text"].split())
        same = complete(post, text, max_tokens=20, bad_words=[], logit_bias={}, **way)
        assert [c["token_ids"] for c in same] == [c["token_ids"] for c in plain]


@pytest.mark.parametrize("way", [{"num_beams": 1}, {"num_beams": 1, "temperature": 1.0, "n": 2, "seed": 1},
                                 {"num_beams": 4, "n": 2}])
def test_allowed_tokens(post, texts, way):
    allowed = post("/tokenize", prompt="programs for the web, library of tools")["tokens"]
    for choice in complete(post, texts[0], max_tokens=8, allowed_token_ids=allowed, **way):
        assert set(choice["token_ids"]) <= set(allowed)


def test_logit_bias(client, post, texts):
    plain = complete(post, texts[0], max_tokens=5, num_beams=1)[0]["token_ids"]
    answer = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=5, logit_bias={str(plain[0]): -100},
                                       extra_body={"num_beams": 1, "return_token_ids": True})
    assert plain[0] not in answer.choices[0].model_extra["token_ids"]
    answer = client.completions.create(model=MODEL, prompt=texts[0], max_tokens=3, logit_bias={"77": 100},
                                       extra_body={"num_beams": 1, "return_token_ids": True, "forced_eos_token_id": None,
                                                   "no_repeat_ngram_size": 0})
    assert answer.choices[0].model_extra["token_ids"] == [77, 77, 77]


@pytest.mark.parametrize("params", [{"logit_bias": {"99999999": 1}}, {"logit_bias": {"x": 1}}, {"logit_bias": {"5": 101}},
                                    {"logit_bias": [5]}, {"bad_words": [" "]}, {"bad_words": [5]},
                                    {"bad_words": ["x"] * 1025}, {"allowed_token_ids": []},
                                    {"allowed_token_ids": [10**9]}, {"bad_words_ids": [[]]}])
def test_bad_lists(post, params):
    assert post("/v1/completions", status=400, prompt="a", **params)["error"]["param"] == next(iter(params))


# --- The others -------------------------------------------------------------------------------------

def test_prompts_without_special_tokens(post, texts):
    ids = post("/tokenize", prompt=texts[0], add_special_tokens=False)["tokens"]
    bare = complete(post, texts[0], max_tokens=10, add_special_tokens=False)[0]
    assert bare["token_ids"] == complete(post, ids, max_tokens=10)[0]["token_ids"]
    usage = [post("/v1/completions", prompt=texts[0], max_tokens=1, add_special_tokens=special)["usage"]["prompt_tokens"]
             for special in (False, True)]
    assert usage == [len(ids), len(ids) + 2]


def test_ids_of_requests_and_tokens(server, post, texts):
    assert post("/v1/completions", prompt="a", max_tokens=1, request_id="mine")["id"] == "cmpl-mine"
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1, "request_id": "mine"},
                        headers={"x-request-id": "other"}).json()
    assert answer["id"] == "cmpl-other"
    choice = complete(post, texts[0], max_tokens=3, logprobs=1, return_tokens_as_token_ids=True)[0]
    assert choice["logprobs"]["tokens"] == [f"token_id:{i}" for i in choice["token_ids"]]


def test_salts_change_nothing_else(post, texts):
    plain = complete(post, texts[0], max_tokens=10)
    for salt in ("one", "two", "one"):
        assert complete(post, texts[0], max_tokens=10, cache_salt=salt) == plain


def test_what_is_ignored_is_in_the_log_once(start_server):
    server = start_server()
    for _ in range(3):
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "reasoning_effort": "low",
                "kv_transfer_params": None, "user": "me", "chat_template_kwargs": {}}
        assert httpx.post(server.url + "/v1/chat/completions", json=body).status_code == 200
    assert server.log().count("reasoning_effort") == 1 and "chat_template_kwargs" not in server.log()
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a", "kv_transfer_params": {"do_remote_decode": True}})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "kv_transfer_params"
