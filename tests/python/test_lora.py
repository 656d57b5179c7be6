"""LoRA adapters over HTTP with the unmodified openai package: PEFT's tokens for each of a batch, and adapters that come and go."""
import concurrent.futures
import json

import httpx
import openai
import pytest

from conftest import GOLDENS

MODEL = GOLDENS / "bart-tiny"
ADAPTERS = GOLDENS.parent / "lora" / "bart-tiny"
CASES = [c for c in json.loads((ADAPTERS / "golden.json").read_text())["cases"] if c["kind"] == "greedy"]


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def tokens(client, case, model):
    prompt = {"encoder_prompt": {"prompt_token_ids": case["encoder_ids"]},
              "decoder_prompt": {"prompt_token_ids": case["decoder_prompt_ids"]}}
    answer = client.completions.create(model=model, prompt="", extra_body={
        "prompt": prompt, "return_token_ids": True, **case["generation"]})
    return [*case["decoder_prompt_ids"], *answer.choices[0].token_ids]


def check(client, cases, names):
    """All at once: each case with its adapter, which names[…] calls so."""
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        got = list(pool.map(lambda case: tokens(client, case, names[case["adapter"]]), cases))
    for case, ids in zip(cases, got):
        assert ids == case["output_ids"], case["name"]


@pytest.mark.parametrize("flags", [
    ("--lora-modules", f"qv={ADAPTERS / 'qv-r4'}", json.dumps({"name": "dora", "path": str(ADAPTERS / "dora-r4")})),
    ("--lora-modules", f"qv={ADAPTERS / 'qv-r4'}", "--lora-modules", f"dora={ADAPTERS / 'dora-r4'}"),
])
def test_adapters_of_the_start_share_a_batch(start_server, flags):
    server = start_server(*flags, model=MODEL)
    client = client_of(server)
    assert {m.id for m in client.models.list()} >= {"qv", "dora"}
    check(client, CASES, {None: "bart-tiny", "qv-r4": "qv", "dora-r4": "dora"})
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="news", prompt="a")


def test_adapters_come_and_go(start_server):
    server = start_server("--allow-runtime-lora-updating", model=MODEL)
    client = client_of(server)

    def load(name, path):
        return httpx.post(server.url + "/v1/load_lora_adapter", json={"lora_name": name, "lora_path": str(path)})

    assert load("one", ADAPTERS / "qv-r4").status_code == 200
    of_qv = [c for c in CASES if c["adapter"] == "qv-r4"]
    check(client, of_qv, {"qv-r4": "one"})
    again = load("one", ADAPTERS / "dora-r4")
    assert again.status_code == 400 and "one" in again.text, "a name is taken until it is unloaded"
    assert httpx.post(server.url + "/v1/unload_lora_adapter", json={"lora_name": "one"}).status_code == 200
    with pytest.raises(openai.NotFoundError):
        tokens(client, of_qv[0], "one")
    assert load("one", ADAPTERS / "dora-r4").status_code == 200
    check(client, [c for c in CASES if c["adapter"] in (None, "dora-r4")], {None: "bart-tiny", "dora-r4": "one"})
    missing = load("two", ADAPTERS / "nowhere")
    assert missing.status_code == 400 and "nowhere" in missing.text
    assert [m.id for m in client.models.list()][-1] == "one"


def test_without_the_flag_clients_load_nothing(server):
    refused = httpx.post(server.url + "/v1/load_lora_adapter", json={"lora_name": "a", "lora_path": str(ADAPTERS / "qv-r4")})
    assert refused.status_code == 400 and "allow-runtime-lora-updating" in refused.text
