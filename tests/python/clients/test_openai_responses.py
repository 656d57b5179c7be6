"""/v1/responses with the unmodified openai package."""
import asyncio

import openai
import pytest

MODEL = "demo-model"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, _strict_response_validation=True)


def ours(client, text, **params):
    return client.completions.create(model=MODEL, prompt=text, **params)


def test_whole(client, texts):
    for text in texts[:3]:
        answer = client.responses.create(model=MODEL, input=text, max_output_tokens=30)
        want = ours(client, text, max_tokens=30)
        assert answer.output_text == want.choices[0].text
        assert answer.status == {"stop": "completed", "length": "incomplete"}[want.choices[0].finish_reason]
        assert (answer.incomplete_details is None) == (answer.status == "completed")
        assert answer.usage.input_tokens == want.usage.prompt_tokens
        assert answer.usage.output_tokens == want.usage.completion_tokens
        assert answer.id.startswith("resp_") and answer.output[0].id.startswith("msg_")
        assert answer.model == MODEL and answer.error is None and answer.max_output_tokens == 30


def test_items(client, texts):
    want = client.responses.create(model=MODEL, input=texts[0], max_output_tokens=20).output_text
    items = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"},
             {"role": "user", "content": [{"type": "input_text", "text": texts[0]}]}]
    assert client.responses.create(model=MODEL, input=items, max_output_tokens=20).output_text == want
    earlier = client.responses.create(model=MODEL, input="hello", max_output_tokens=5)
    again = [{"role": "user", "content": "hello"}, *(item.model_dump() for item in earlier.output),
             {"role": "user", "content": texts[0]}]
    assert client.responses.create(model=MODEL, input=again, max_output_tokens=20).output_text == want
    asked = client.responses.create(model=MODEL, input=texts[0], instructions="Be brief.", max_output_tokens=20,
                                    metadata={"a": "b"}, temperature=0, store=False, truncation="auto")
    assert asked.output_text == want, "the demo model's prompts have no place for instructions"
    assert asked.instructions == "Be brief." and asked.metadata == {"a": "b"} and asked.temperature == 0


def test_stream(client, texts):
    for text in texts[:3]:
        whole = client.responses.create(model=MODEL, input=text, max_output_tokens=25)
        # (The salt keeps the answer before from being this one's draft.)
        events = list(client.responses.create(model=MODEL, input=text, max_output_tokens=25, stream=True,
                                              extra_body={"cache_salt": "own drafts only"}))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        types = [event.type for event in events]
        assert types[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                             "response.content_part.added"]
        assert types[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                              "response." + whole.status]
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert len(deltas) > 2 and "".join(deltas) == whole.output_text
        last = events[-1].response
        assert last.output_text == whole.output_text and last.usage == whole.usage
        assert {event.item_id for event in events if hasattr(event, "item_id")} == {last.output[0].id}


def test_the_package_s_own_reader_of_streams(client, texts):
    with client.responses.stream(model=MODEL, input=texts[0], max_output_tokens=25) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(pieces) == final.output_text


def test_log_probabilities(client, texts):
    answer = client.responses.create(model=MODEL, input=texts[0], max_output_tokens=8, top_logprobs=2,
                                     include=["message.output_text.logprobs"])
    want = ours(client, texts[0], max_tokens=8, logprobs=2).choices[0].logprobs
    logprobs = answer.output[0].content[0].logprobs
    assert [one.logprob for one in logprobs] == want.token_logprobs
    assert all(len(one.top_logprobs) == 2 for one in logprobs)
    stream = client.responses.create(model=MODEL, input=texts[0], max_output_tokens=8, stream=True, top_logprobs=0)
    deltas = [event for event in stream if event.type == "response.output_text.delta"]
    assert [one.logprob for event in deltas for one in event.logprobs] == want.token_logprobs


def test_parameters_of_the_engine(client, texts):
    beams = {"num_beams": 4, "length_penalty": 2.0}
    answer = client.responses.create(model=MODEL, input=texts[0], max_output_tokens=20, extra_body=beams)
    assert answer.output_text == ours(client, texts[0], max_tokens=20, extra_body=beams).choices[0].text


@pytest.mark.parametrize("field, value", [
    ("previous_response_id", "resp_1"), ("store", True), ("background", True), ("conversation", "conv_1"),
    ("tools", [{"type": "web_search"}]), ("prompt", {"id": "pmpt_1"}), ("temperature", -1.0), ("max_output_tokens", 0),
    ("include", ["file_search_call.results"]), ("text", {"format": {"type": "grammar"}})])
def test_refusals(client, field, value):
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(model=MODEL, input="a", **{field: value})
    assert e.value.param.split(".")[0] == field and field in e.value.message


def test_errors(client):
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(model=MODEL, input="word " * 3000)
    assert e.value.code == "context_length_exceeded" and e.value.param == "input"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="another", input="a")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_1")


def test_asynchronous(server, texts):
    async def ask():
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        whole = await client.responses.create(model=MODEL, input=texts[0], max_output_tokens=20)
        stream = await client.responses.create(model=MODEL, input=texts[0], max_output_tokens=20, stream=True)
        assert "".join([event.delta async for event in stream if event.type == "response.output_text.delta"]) == whole.output_text
        left = await client.responses.create(model=MODEL, input=texts[0], max_output_tokens=400, stream=True)
        async for event in left:
            if event.type == "response.output_text.delta":
                break
        await left.close()

    asyncio.run(ask())
