"""What locust's users ask of the server: everything that OpenAI's clients do, mixed. See test_load_generator.py."""
import json
import pathlib

from locust import FastHttpUser, between, task

TEXTS = [path.read_text().strip() for path in
         sorted((pathlib.Path(__file__).resolve().parents[3] / "examples" / "texts").glob("*.txt"))]


class User(FastHttpUser):
    wait_time = between(0.0, 0.05)

    @task(4)
    def completion(self):
        body = {"model": "demo-model", "prompt": TEXTS, "max_tokens": 12}
        with self.client.post("/v1/completions", json=body, catch_response=True) as answer:
            if answer.status_code == 200 and len(answer.json()["choices"]) != len(TEXTS):
                answer.failure("choices are missing")

    @task(4)
    def stream(self):
        body = {"messages": [{"role": "user", "content": TEXTS[0]}], "max_tokens": 24, "stream": True,
                "stream_options": {"include_usage": True}}
        with self.client.post("/v1/chat/completions", json=body, stream=True, catch_response=True,
                              name="/v1/chat/completions, streamed") as answer:
            if answer.status_code != 200:
                return
            events = [line[len("data: "):] for line in answer.text.split("\n\n") if line]
            usage = json.loads(events[-2])["usage"]
            if events[-1] != "[DONE]" or usage["completion_tokens"] < 1:
                answer.failure("the stream is not whole")

    @task(2)
    def score(self):
        self.client.post("/score", json={"text_1": TEXTS[0], "text_2": ["one", "another one"]})

    @task
    def target_scores(self):
        self.client.post("/v1/target_scores", json={"prompt": TEXTS[0], "target": ["one", "another one"]})

    @task(1)
    def others(self):
        self.client.get("/v1/models")
        self.client.get("/health")
        self.client.get("/metrics")
        self.client.post("/tokenize", json={"prompt": TEXTS[0]})
