"""Types, the guide's snippets, and the wheel in a virtual environment of its own."""
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

from conftest import GOLDENS, MODEL, ROOT
from speech_model import make_whisper, wav
from tandem_infer import LLM


def test_types():
    """mypy --strict is content with the package, and with a program that uses it."""
    uses = ROOT / "tests" / "python" / "library" / "typed_program.py"
    for what in (["-p", "tandem_infer"], [str(uses)]):
        out = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull, *what],
                             cwd=ROOT / "python", capture_output=True, text=True,
                             env={**os.environ, "MYPYPATH": str(ROOT / "python")})
        assert out.returncode == 0, out.stdout


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, tandem_infer, tandem_infer.client; assert 'numpy' not in sys.modules; print(len(dir(tandem_infer)))"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python"),
                                                                  "TANDEM_LIBRARY": "/nowhere"}, stdout=subprocess.DEVNULL)


def test_docstrings():
    """Every public class, function and method says what it does."""
    import tandem_infer
    for name in tandem_infer.__all__:
        thing = getattr(tandem_infer, name)
        if not callable(thing):
            continue
        assert thing.__doc__, name
        for member, what in vars(thing).items() if isinstance(thing, type) else ():
            if not member.startswith("_") and isinstance(what, (types.FunctionType, property)):
                assert (what.fget if isinstance(what, property) else what).__doc__, f"{name}.{member}"


def test_no_library():
    code = "from tandem_infer import LLM; LLM('x')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "TANDEM_LIBRARY": "/nowhere/libtandem.so"})
    assert out.returncode == 1 and "ImportError" in out.stderr and "TANDEM_LIBRARY" in out.stderr


GUIDE = "".join((ROOT / name).read_text() for name in ("README.md", "python/README.md", "docs/python.md", "docs/documents.md"))
SNIPPETS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_guide(number, tmp_path):
    """Each runs by itself, with tiny models in the place of those that it names."""
    code = SNIPPETS[number]
    models = {"examples/demo-model": MODEL, "facebook/bart-large-cnn": MODEL, "sshleifer/distilbart-cnn-12-6": MODEL, "Helsinki-NLP/opus-mt-en-de": GOLDENS / "marian-tiny",
              "facebook/mbart-large-50-many-to-many-mmt": GOLDENS / "mbart50-tiny", "google/flan-t5-base": GOLDENS / "t5-tiny",
              "microsoft/trocr-base-printed": ROOT / "tests" / "data" / "vision-tiny"}
    if "whisper" in code:
        models["openai/whisper-small"] = make_whisper(tmp_path / "whisper")
    for name, folder in models.items():
        code = code.replace(f'"{name}"', repr(str(folder)))
    (tmp_path / "talk.mp3").write_bytes(wav(2))  # (what it is, its bytes say)
    (tmp_path / "texts.txt").write_text("A first text.\nA second text.\n")
    (tmp_path / "page.html").write_text("<h1>The cloud</h1><p>It has <b>many</b> machines.</p>\n")
    (tmp_path / "terms.tsv").write_text("cloud\tWolke\n")
    (tmp_path / "line.png").write_bytes((ROOT / "tests" / "data" / "images" / "grey8.png").read_bytes())
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                         env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert out.returncode == 0, code + out.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Packed from what is compiled, in seconds. TANDEM_WHEEL names one that is there."""
    if os.environ.get("TANDEM_WHEEL"):
        return pathlib.Path(os.environ["TANDEM_WHEEL"])
    build = os.environ.get("TANDEM_BUILD", str(ROOT / "build"))
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([str(ROOT / "scripts" / "build_wheel"), "--build", build, "--no-compile", "--out", str(out)],
                          capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stderr)
    release = pathlib.Path("/etc/os-release").read_text()
    if done.returncode != 0 and "VERSION_CODENAME=bookworm" not in release:
        pytest.skip("wheels are made on Debian 12")
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


USE = """
import sys
from tandem_infer import LLM, pipeline
llm = LLM(sys.argv[1], dtype="float32")
print(llm.generate("A tool to find duplicate files.", max_new_tokens=12)[0].text)
assert pipeline("summarization", llm=llm)("A text.", max_new_tokens=5)[0]["summary_text"]
hears = LLM(sys.argv[2], dtype="float32")
assert hears.transcribe(sys.argv[3], "de").duration == 2.0
import tandem_infer
print(tandem_infer.__file__)
"""


def test_wheel(wheel, tmp_path, llm):
    """In a bare virtual environment: the library, the program, the decoder."""
    assert wheel.stat().st_size <= 25_000_000 and "-py3-none-manylinux" in wheel.name
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    installed = subprocess.run([str(venv / "bin" / "pip"), "install", "-q", str(wheel)], capture_output=True, text=True)
    if installed.returncode != 0 and "No matching distribution" in installed.stderr:
        pytest.skip(installed.stderr)
    assert installed.returncode == 0, installed.stderr
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TANDEM_", "PYTHON", "LD_"))}
    (tmp_path / "a.wav").write_bytes(wav(2))
    whisper = make_whisper(tmp_path / "whisper")
    out = subprocess.run([str(venv / "bin" / "python"), "-c", USE, str(MODEL), str(whisper), str(tmp_path / "a.wav")], env=clean,
                         cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    text, place = out.stdout.splitlines()[-2:]
    assert text == llm.generate("A tool to find duplicate files.", max_new_tokens=12)[0].text and str(venv) in place
    program = str(venv / "bin" / "tandem")
    said = subprocess.run([program, "generate", str(MODEL), "--dtype", "float32", "--max-new-tokens", "12",
                           "A tool to find duplicate files."], env=clean, capture_output=True, text=True)
    assert said.stdout.strip() == text, said.stderr
    none = subprocess.run([program, "serve", "/no/such/model"], env=clean, capture_output=True, text=True)
    assert none.returncode == 2 and "means nothing" not in none.stderr, none.stderr  # variables that the package sets
    two = subprocess.run([program, "generate", str(MODEL), "--dtype", "float32", "--max-new-tokens", "12", "--tp", "2",
                          "A tool to find duplicate files."], env=clean, capture_output=True, text=True)
    assert two.stdout.strip() == text, two.stderr
    for language in ("de_DE", "German"):  # names are in ICU's data, of which the wheel has a part
        there = subprocess.run([program, "translate", str(GOLDENS / "mbart50-tiny"), "Hello there.", "--to", language, "--max-new-tokens", "5"],
                               env=clean, capture_output=True, text=True)
        with LLM(GOLDENS / "mbart50-tiny") as translator:
            assert there.stdout.strip() == translator.translate("Hello there.", "de_DE", max_new_tokens=5).strip(), there.stderr
    heard = subprocess.run([program, "transcribe", str(whisper), str(tmp_path / "a.wav")], env=clean, capture_output=True, text=True)
    assert heard.returncode == 0, heard.stderr
