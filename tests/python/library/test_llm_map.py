"""map(): any number of prompts, with bounded memory."""
import itertools
import resource
import threading
import time

import pytest

from conftest import GOLDENS
from tandem_infer import LLM, RequestError, _requests


def test_order(llm, texts):
    expected = [o.text for o in llm.generate(texts, max_tokens=15)]
    ordered = list(llm.map(iter(texts), max_tokens=15))
    assert [o.text for o in ordered] == expected and [o.index for o in ordered] == list(range(len(texts)))
    finished = list(llm.map(iter(texts), max_tokens=15, ordered=False, window=3))
    assert sorted(o.index for o in finished) == list(range(len(texts)))
    assert {o.index: o.text for o in finished} == dict(enumerate(expected))


def test_prompts_are_taken_as_answers_leave(llm):
    """An endless iterator, and a reader that is slow."""
    taken = 0

    def prompts():
        nonlocal taken
        for i in itertools.count():
            taken = i + 1
            yield f"Package number {i % 7}."

    for ordered in (True, False):
        answers = llm.map(prompts(), max_tokens=3, window=10, ordered=ordered)
        for count, _ in enumerate(itertools.islice(answers, 100), 1):
            assert taken <= count + 11
        answers.close()


def test_memory():
    """Ten thousand answers later no more of it than after the first thousand."""
    with LLM(GOLDENS / "bart-tiny", dtype="float32") as model:
        prompts = (f"Text {i % 50}" for i in range(11000))
        answers = model.map(prompts, max_tokens=2)
        for _ in itertools.islice(answers, 1500):
            pass
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert sum(1 for _ in answers) == 9500
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


def test_other_threads_run(llm, texts):
    """Whoever waits for news, or computes for minutes, does not hold the interpreter's lock."""
    inbox = llm.engine.inbox()
    waiting = threading.Thread(target=inbox.poll, args=(1500,))
    work = threading.Thread(target=llm.generate, args=(texts * 20,), kwargs={"num_beams": 4, "max_tokens": 40})
    for thread in (waiting, work):
        thread.start()
        longest, ticks, last = 0.0, 0, time.monotonic()
        while thread.is_alive():
            time.sleep(0.001)
            now = time.monotonic()
            longest, ticks, last = max(longest, now - last), ticks + 1, now
        thread.join()
        assert ticks > 20 and longest < 1
    inbox.close()


def test_news_are_waited_for_together(llm, texts):
    inbox = llm.engine.inbox()
    requests = _requests.Generations(None, {"max_tokens": 5})
    for number in range(3):
        request = requests.request(texts[number])
        inbox.submit(number, request.text)
    news = inbox.poll(60000, 3)
    assert sorted(one.number for one in news) == [0, 1, 2] and all(one.last for one in news)
    for one in news:
        assert one.body["encoder_prompt_token_ids"] == llm.tokenize(texts[one.number])
    begin = time.monotonic()
    assert inbox.poll(100, 3) == [] and time.monotonic() - begin >= 0.1
    request = requests.request(texts[0])
    inbox.submit(9, request.text)
    late = []
    while not late:
        late = inbox.poll(200, 2)  # there is but one
    assert [one.number for one in late] == [9]
    inbox.close()


def test_errors(llm):
    prompts = ["A text.", "", "Another text."]
    answers = list(llm.map(prompts, max_tokens=5, return_errors=True))
    assert [isinstance(a, Exception) for a in answers] == [False, True, False]
    assert isinstance(answers[1], RequestError) and answers[1].index == 1
    with pytest.raises(RequestError):
        list(llm.map(prompts, max_tokens=5))
    with pytest.raises(RequestError, match="window"):
        list(llm.map(prompts, window=0))
    with pytest.raises(ZeroDivisionError):
        list(llm.map((1 / 0 for _ in range(3))))


def test_bar(llm, capsys):
    list(llm.map(["A text.", "Another text."], max_tokens=3, use_tqdm=True))
    assert "2/2" in capsys.readouterr().err
