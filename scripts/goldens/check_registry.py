#!/usr/bin/env python3
"""Compares the table "What transformers registers" of docs/models.md with the installed transformers, and what it says of
Tandem with the families of models/families.

    check_registry.py      status 1, with a line for each model type that is missing, unknown, or wrongly said to be served
"""
import pathlib
import re
import sys

from transformers.models.auto import modeling_auto

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTRIES = ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
              "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES")


def documented() -> dict[str, bool]:
    """Whether a model type is served."""
    text = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    section = text.split("\n## What transformers registers\n")[1].split("\n## ")[0]
    out: dict[str, bool] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if len(cells) == 2 and cells[0].startswith("| `"):
            out.update({name: cells[1].startswith("served") for name in re.findall(r"`([^`]+)`", cells[0]) if name != "model_type"})
    return out


def families() -> set[str]:
    """Each `model_type` of a ModelFamily: the quoted words of the families' files."""
    return {word for file in (ROOT / "models/families").glob("*.cc") for word in re.findall(r'"([a-z0-9_.-]+)"', file.read_text("utf-8"))}


def main() -> int:
    registered = {name for registry in REGISTRIES for name in getattr(modeling_auto, registry)}
    table, built = documented(), families()
    wrong = [f"{name}: is not in docs/models.md" for name in sorted(registered - table.keys())]
    wrong += [f"{name}: is not registered" for name in sorted(table.keys() - registered)]
    wrong += [f"{name}: is said to be served, but no family has it" for name, served in table.items() if served and name not in built]
    for line in wrong:
        print(line)
    print(f"{len(registered)} model types, {sum(table.values())} of them served, {len(wrong)} to mend", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
