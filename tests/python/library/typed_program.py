"""Uses the package as a typed program does; mypy --strict reads it, nobody runs it."""
import asyncio
from typing import List

import numpy as np
from numpy.typing import NDArray

from tandem_infer import LLM, AsyncLLM, Classification, RequestError, RequestOutput, SamplingParams, TargetScore, Transcription, pipeline


def main() -> None:
    with LLM("facebook/bart-large-cnn", dtype="int8", tensor_parallel_size=2) as llm:
        outputs: List[RequestOutput] = llm.generate(["A text."], SamplingParams(max_tokens=5), num_beams=4)
        short: str = llm.summarize("A text.")
        several: List[str] = llm.translate(["A text."], tgt_lang="de")
        page: str = llm.translate("<p>A text.", "de", format="html", glossary={"text": "Text"})
        pages: List[str] = llm.translate(["A text."], "de", format="markdown", glossary=[("text", "Text")])
        said: Transcription = llm.transcribe(np.zeros(16000, dtype=np.float32))
        vector: NDArray[np.float32] = llm.embed("A text.")
        found: Classification = llm.classify("A text.", labels=["news", "sports"])
        pairs: List[Classification] = llm.classify([("A premise.", "A hypothesis.")])
        score: TargetScore = llm.score("A text.", "A target.")
        for event in llm.stream("A text."):
            print(event.text)
        texts: List[str] = [output.text for output in llm.map(["A text."], ordered=False)]
        failed: List[bool] = [isinstance(one, Exception) for one in llm.map(texts, return_errors=True)]
        try:
            llm.generate("")
        except RequestError as error:
            print(error.param)
        print(found.label, found.scores, pairs[0].logits)
        print(outputs[0].outputs[0].token_ids, short, several, page, pages, said.segments, failed, vector.shape, score.token_logprobs)
        print(pipeline("summarization", llm=llm)("A text."))


async def work() -> None:
    async with AsyncLLM("facebook/bart-large-cnn") as llm:
        output = await llm.generate("A text.", max_new_tokens=5)
        print(output.text)
        async for event in llm.stream("A text."):
            print(event.text)
        print(await llm.translate("A text.", "de", format="xml", glossary="terms.tsv"), await llm.summarize("A text.", format="html"))
        print([one.text async for one in llm.map(["A text."])], (await llm.beam_search("A text.")).sequences[0].score)


main()
asyncio.run(work())
