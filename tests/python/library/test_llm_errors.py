"""What is wrong is an exception of Python's, and names the field."""
import subprocess
import sys
import threading
import time

import pytest

from conftest import GOLDENS, MODEL
from tandem_infer import LLM, EngineError, ModelError, RequestError, UnsupportedError


@pytest.mark.parametrize("params, field", [
    ({"max_new_token": 3}, "max_new_token"), ({"num_beams": 0}, "num_beams"), ({"temperature": "hot"}, "temperature"),
    ({"top_p": 2.0}, "top_p"), ({"timeout": -1}, "timeout"), ({"forced_bos_token_id": 10**9}, "forced_bos_token_id")])
def test_parameters(llm, params, field):
    with pytest.raises(ValueError, match=field) as e:
        llm.generate("A text.", **params)
    assert e.value.param == field and isinstance(e.value, RequestError)


def test_which_prompt(llm):
    with pytest.raises(RequestError, match="prompt 1: ") as e:
        llm.generate(["A text.", "", "Another one."])
    assert e.value.index == 1
    with pytest.raises(RequestError, match="sampling_params"):
        llm.generate(["A text.", "Another."], [{}])
    with pytest.raises(ValueError, match="prompt"):
        llm.generate(7)


def test_too_long(llm):
    with pytest.raises(ValueError, match="prompt"):
        llm.generate("word " * 5000)
    assert llm.generate("word " * 5000, truncate_prompt_tokens=-1, max_tokens=5)


def test_options(tmp_path):
    for options, field in [({"dtype": "float99"}, "dtype"), ({"no_such_option": 1}, "no_such_option"),
                           ({"max_num_seqs": 0}, "max_num_seqs"), ({"threads": "many"}, "threads"),
                           ({"tensor_parallel_size": 0}, "tensor")]:
        with pytest.raises(ValueError, match=field):
            LLM(MODEL, **options)
    with pytest.raises(ValueError, match="no-such-model"):
        LLM(str(tmp_path / "no-such-model"))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="config.json"):
        LLM(tmp_path)
    with pytest.raises(UnsupportedError, match="distributed_executor_backend"):
        LLM(MODEL, distributed_executor_backend="processes")


def test_what_a_model_cannot(llm):
    with pytest.raises(ValueError, match="sound"):
        llm.transcribe(b"RIFF")
    with pytest.raises(ValueError):
        llm.generate({"multi_modal_data": {"image": b"no image"}})


def test_closed():
    model = LLM(GOLDENS / "bart-tiny", dtype="float32")
    model.close()
    model.close()
    with pytest.raises(EngineError, match="closed"):
        model.generate("A text.")


def test_closed_from_another_thread():
    model = LLM(GOLDENS / "bart-tiny", dtype="float32", max_num_seqs=2)
    errors = []

    def work():
        try:
            for _ in range(2000):
                model.generate(["A text."] * 20, max_tokens=20)
        except EngineError as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    model.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(errors) == 3


def test_a_deadline(llm):
    with pytest.raises((TimeoutError, ValueError)):
        llm.generate(["A text. " * 60] * 64, num_beams=8, max_tokens=200, timeout=0.001)


PROGRAM = """
import asyncio, itertools, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background ignores it
sys.path.insert(0, {root!r})
from tandem_infer import LLM, AsyncLLM
llm = LLM({model!r}, dtype="float32")
texts = ["A text that is long enough to be read. " * 8] * 5000
long = dict(num_beams=8, min_new_tokens=100, max_new_tokens=120)
async def wait():
    await AsyncLLM.of(llm).generate_many(texts, **long)
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(llm.generate("A text.", max_tokens=5)[0].text != "", flush=True)
"""


CALL = "llm.generate(texts, **long)"
CALLS = [CALL, "list(llm.map(itertools.cycle(texts), **long))", "llm.embed(texts * 8)", "asyncio.run(wait())",
         "llm.translate(texts, format='html', **long)",
         "[list(llm.stream(text, max_new_tokens=120, min_new_tokens=100)) for text in texts]"]


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c(call):
    """Ends at once, in the middle of thousands of requests, and the model is there afterwards."""
    import signal

    from conftest import ROOT

    code = PROGRAM.format(root=str(ROOT / "python"), model=str(MODEL), call=call)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        time.sleep(1)
        begin = time.monotonic()
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < 2
        assert program.stdout.readline() == "True\n"
        assert program.wait(30) == 0


def test_ctrl_c_ends_a_program():
    import signal

    from conftest import ROOT

    code = PROGRAM.format(root=str(ROOT / "python"), model=str(MODEL), call=CALL).replace("KeyboardInterrupt", "KeyError")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.5)
        begin = time.monotonic()
        program.send_signal(signal.SIGINT)
        assert program.wait(30) in (130, -signal.SIGINT, 1)
        assert time.monotonic() - begin < 3


def test_ctrl_c_while_loading(monkeypatch):
    """The thread that loads is told to stop; nobody waits for it."""
    import os
    import signal

    from tandem_infer import _library

    stopped = threading.Event()

    class SlowLibrary:
        def tandem_open(self, options, stop, error):
            while not stop._obj.value:
                time.sleep(0.01)
            stopped.set()

    monkeypatch.setattr(_library, "library", SlowLibrary)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background ignores it
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            LLM(MODEL)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < 2 and stopped.wait(5)


def test_forked(llm):
    import os

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            llm.generate("A text.")
        except EngineError as e:
            os.write(writer, str(e).encode())
        os._exit(0)
    os.close(writer)
    assert b"fork" in os.read(reader, 1000)
    os.waitpid(child, 0)
    os.close(reader)
