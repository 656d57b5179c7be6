"""Makes pieces/: SentencePiece models, and how the library segments texts with them.

usage: make_pieces.py GOLDENS   (checkpoints of scripts/goldens/make_goldens.py)

marian.model leaves characters as they are; t5.model has a table of its own for them. Their pieces are those that
tokenizer_cases.json has of the sentencepiece package.
"""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {"marian": ("marian-tiny", "source.spm"), "t5": ("flan-t5-untied", "spiece.model")}

cases = {}
for name, (checkpoint, file) in MODELS.items():
    folder = os.path.join(sys.argv[1], checkpoint)
    shutil.copyfile(os.path.join(folder, file), os.path.join(HERE, "pieces", name + ".model"))
    with open(os.path.join(folder, "tokenizer_cases.json"), encoding="utf-8") as f:
        cases[name] = [[c["text"], c["spm_pieces"]] for c in json.load(f)["cases"] if "spm_pieces" in c]
with open(os.path.join(HERE, "pieces", "pieces.json"), "w", encoding="utf-8") as f:
    json.dump(cases, f, ensure_ascii=True, indent=0)
