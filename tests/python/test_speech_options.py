"""docs/speech.md has every parameter of faster-whisper: its name here, or a reason why there is none."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def rows():
    text = (ROOT / "docs/speech.md").read_text()
    section = re.search(r"^## Options beside faster-whisper's\n(.*?)^## ", text, re.S | re.M).group(1)
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield cells[0].strip("`"), cells[1], cells[2] if len(cells) > 2 else ""


def test_every_parameter_has_a_row():
    names = json.loads((ROOT / "tests/data/speech/faster_whisper.json").read_text())
    want = set().union(*names["parameters"].values())
    found = [name for name, _, _ in rows()]
    assert sorted(found) == sorted(want), "a parameter without a row, or a row that is no parameter"


def test_no_row_lacks_a_name_and_a_reason():
    for name, ours, why in rows():
        assert ours.startswith("`") or (ours == "–" and len(why) > 10), name


def test_names_exist():
    """What a row says is a flag of the command, or a parameter of speech or generation."""
    page = (ROOT / "docs/tandem.1").read_text() if (ROOT / "docs/tandem.1").exists() else ""
    text = "".join((ROOT / path).read_text() for path in
                   ("runtime/protocol/tandem.proto", "launcher/commands/transcribe.cc", "runtime/protocol/json/speech_params_reader.cc"))
    for name, ours, _ in rows():
        for own in re.findall(r"`([a-z_]+)`", ours):
            if name not in ("audio", "model_size_or_path"):
                assert re.search(rf"\b{own}\b", text + page), (name, own)
