"""AsyncLLM: the same tokens; streams, cancellation, errors."""
import asyncio
import gc
import itertools

import numpy as np
import pytest

from tandem_infer import AsyncLLM, EngineError, RequestError


def run(llm, work):
    async def main():
        return await asyncio.wait_for(work(AsyncLLM.of(llm)), 60)

    return asyncio.run(main())


def test_together(llm, texts):
    async def work(model):
        outputs = await asyncio.gather(*(model.generate(text, max_tokens=15) for text in texts))
        many = await model.generate_many(texts, max_tokens=15)
        return [o.text for o in outputs], [o.text for o in many]

    expected = [o.text for o in llm.generate(texts, max_tokens=15)]
    assert run(llm, work) == (expected, expected)


def test_streams(llm, texts):
    async def work(model):
        async def one(text):
            return "".join([event.text async for event in model.stream(text, max_tokens=20)])

        return await asyncio.gather(*(one(text) for text in texts))

    assert run(llm, work) == [o.text for o in llm.generate(texts, max_tokens=20)]


def test_the_loop_is_free(llm, texts):
    async def work(model):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        await model.generate_many(texts * 8, num_beams=4, max_tokens=40)
        ticking.cancel()
        return ticks

    assert run(llm, work) > 3


def test_cancellation(llm, texts):
    async def work(model):
        task = asyncio.ensure_future(model.generate(texts[0], max_tokens=10, num_beams=4))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async for _ in model.stream(texts[0], max_tokens=60):
            break
        return (await model.generate(texts[0], max_tokens=10)).text

    assert run(llm, work) == llm.generate(texts[0], max_tokens=10)[0].text


def test_map(llm, texts):
    async def work(model):
        async def endless():
            for text in itertools.cycle(texts):
                yield text

        out = []
        answers = model.map(endless(), max_tokens=5, window=8)
        async for output in answers:
            out.append(output.text)
            if len(out) == 30:
                break
        await answers.aclose()
        loose = [o.index async for o in model.map(texts, max_tokens=5, ordered=False)]
        return out, sorted(loose)

    expected = [o.text for o in llm.generate(texts, max_tokens=5)]
    out, loose = run(llm, work)
    assert out == list(itertools.islice(itertools.cycle(expected), 30)) and loose == list(range(len(texts)))


def test_map_with_errors_and_a_bar(llm, texts, capsys):
    async def work(model):
        prompts = [texts[0], "", texts[1]]
        out = [o async for o in model.map(prompts, max_tokens=5, return_errors=True, use_tqdm=True)]
        with pytest.raises(RequestError, match="prompt 1: "):
            await model.generate_many(prompts, max_tokens=5)
        with pytest.raises(RequestError, match="prompt 1: ") as e:
            await model.generate_many([texts[0], 7], max_tokens=5)
        assert e.value.index == 1
        with pytest.raises(RequestError, match="window"):
            async for _ in model.map(prompts, window=0):
                pass
        return out

    out = run(llm, work)
    assert [isinstance(o, Exception) for o in out] == [False, True, False] and out[1].index == 1
    assert out[2].text == llm.generate(texts[1], max_tokens=5)[0].text and "3/3" in capsys.readouterr().err


def test_beams_and_tokens(llm, texts):
    async def work(model):
        ids = model.tokenize(texts[0])
        return await model.beam_search(texts[0], num_beams=3, max_tokens=9), ids, model.detokenize(ids, skip_special_tokens=True)

    beams, ids, text = run(llm, work)
    assert [s.text for s in beams.sequences] == [s.text for s in llm.beam_search(texts[0], num_beams=3, max_tokens=9)[0].sequences]
    assert ids == llm.tokenize(texts[0]) and text.strip() == texts[0]


def test_arrays_and_scores(llm, texts):
    async def work(model):
        return await model.embed(texts[:2]), await model.score(texts[0], "A tool."), await model.summarize(texts[0], max_tokens=9)

    vectors, score, short = run(llm, work)
    assert np.allclose(vectors, llm.embed(texts[:2])) and score.score < 0 and short


def test_errors(llm):
    async def work(model):
        with pytest.raises(RequestError, match="num_beams"):
            await model.generate("A text.", num_beams=-1)
        with pytest.raises(RequestError):
            async for _ in model.map(["A text.", ""]):
                pass
        return True

    assert run(llm, work)


def test_many_errors(llm):
    """All fail at once. One error is raised, and the event loop has nothing to say about the others."""
    async def work(model):
        said = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context.get("exception")))
        with pytest.raises(RequestError, match="prompt [0-9]*: num_beams"):
            await model.generate_many(["A text."] * 50, num_beams=0)
        await asyncio.sleep(0)
        gc.collect()  # (Clients of other tests' loops may be collected here too, and fail.)
        return [error for error in said if isinstance(error, RequestError)]

    assert run(llm, work) == []


def test_close():
    from conftest import GOLDENS

    async def main():
        model = await AsyncLLM.open(GOLDENS / "bart-tiny", dtype="float32")
        task = asyncio.ensure_future(model.generate("A text. " * 20, max_tokens=60, num_beams=8))
        await asyncio.sleep(0.01)
        model.close()
        try:
            await task
        except EngineError:
            pass
        with pytest.raises(EngineError):
            await model.generate("A text.")

    asyncio.run(main())
