#!/usr/bin/env python3
"""Answers of models that read pages, and what HuggingFace's processors make of them: token2json of
Donut, post_process_generation of Nougat and of Florence-2.

    make_answer_cases.py tests/data/answers.json --cases 60      # the file of tests
    make_answer_cases.py - --cases 5000 --seed 7                 # a JSON object a line, for a longer run

Needs transformers, torch, nltk (without its list of words) and Levenshtein.
"""
import argparse
import json
import random
import sys
from types import SimpleNamespace

ADDED = ["<s>", "</s>", "<pad>", "<sep/>", "<yes/>", "<no/>", "<s_a>", "</s_a>", "<s_menu>", "</s_menu>", "</>"]
BANNED = ["it", "the image", "them"]
FORMS = {"<CAPTION>": 0, "<OCR_WITH_REGION>": 1, "<OD>": 2, "<CAPTION_TO_PHRASE_GROUNDING>": 3,
         "<REFERRING_EXPRESSION_SEGMENTATION>": 4, "<OPEN_VOCABULARY_DETECTION>": 5, "<REGION_PROPOSAL>": 6}


# Random texts: of parts that the rules look for, in and out of place.
def tagged(rng):
    names = ["a", "menu", "MENU", "b c", "ſ", "a.b", "ß", "İ", "x(", "", "a_1"]

    def node(depth):
        kind = rng.random()
        if depth > 4 or kind < 0.35:
            return rng.choice(["tea", "2.00", " 3 ", "<yes/>", "<no/>", "<maybe/>", "", "é", "</>", "x\ny", "<", ">",
                               " ", "<s_", "\x1c"])
        if kind < 0.75:
            name = rng.choice(names)
            opened, closed = "<s_" + name + ">", "</s_" + name + ">"
            broken = rng.random()
            if broken < 0.06: closed = ""
            elif broken < 0.12: opened = ""
            elif broken < 0.16: closed = "</s_" + rng.choice(names) + ">"
            elif broken < 0.20: opened = opened.upper()
            elif broken < 0.24: closed = closed.replace("s", "ſ").swapcase()
            elif broken < 0.26: opened = opened[:-1]
            return opened + node(depth + 1) + closed
        return rng.choice(["<sep/>", "", " "]).join(node(depth + 1) for _ in range(rng.randint(1, 4)))

    return "".join(node(0) for _ in range(rng.randint(1, 4)))


def page(rng):
    words = ("the of a model Table Figure x_i results we show that [1] 3.2 , ; : . ? ! é — ½ ٣ İstanbul ΣΑΣ http://a.b/c "
             "ftp://x.yz/q?r=1&s=2 _x_ _a__b_ (_a__12_) \\bm{x} {\\\\bm \\. \\mbox{\\boldmath$a$} **bold** `c` 1.2 iv").split(" ")

    def sentence(n=None):
        return " ".join(rng.choice(words) for _ in range(n or rng.randint(1, 9)))

    def part():
        return rng.choice([
            lambda: sentence() + ".",
            lambda: "#" * rng.randint(1, 3) + " " + rng.choice(["", "1", "1.2 ", "iv.", "Introduction", "3 " + sentence(30)]),
            lambda: "- " + " - ".join(rng.choice(["1 ", "1.2 ", "iv.x ", "a ", "2.3.1 ", "", "1.22 "]) + sentence(2) for _ in range(rng.randint(1, 4))),
            lambda: "* " + rng.choice([" - ", " * "]).join(sentence(2) for _ in range(rng.randint(1, 4))),
            lambda: "(" + rng.choice(["1", "2.3a", "x"]) + ") \\[a+b\\]",
            lambda: "\\[c = d\\] (" + rng.choice(["1", "2.3a", "x"]) + ")" + rng.choice(["", " \\[e\\]"]),
            lambda: "\\begin{table} \\begin{tabular}{l l} a & b \\\\ \\end{tabular} \\end{table}" + rng.choice(["", " Table 1"]),
            lambda: "\\begin{tabular}{" + rng.choice(["l l", "lcr", "l", "c"]) + "}" + rng.choice(["  & ", " ", "\n", " & a"]) + rng.choice(["\\\\", ""]) + " \\end{tabular}",
            lambda: rng.choice(["text ", "\\begin{tabular}{l}" * 16, "& " * 401]) + "\\begin{tabular}{}\n\n\\end{tabular}",
            lambda: "* [" + str(rng.randint(1, 99)) + "]" + rng.choice(["", "[]"]) + rng.choice([" A. B. C. D. E. F. G. H. I. J. K. Smith", " A. Smith", sentence()]),
            lambda: "\nFootnote " + sentence(2) + ": " + rng.choice(["footnotetext", "thanks", "other"]) + ": " + sentence(),
            lambda: "[FOOTNOTE:" + sentence(1) + "]" + sentence(2) + "[ENDFOOTNOTE]",
            lambda: "**S. A. B.**\n" * rng.randint(1, 3),
            lambda: "```" + rng.choice(["", " ", "\n"]) + sentence(3) + rng.choice(["", "\n"]) + "```",
            lambda: "\\begin{array}[]{ll} a \\end{array}", lambda: ".", lambda: ". ", lambda: "#", lambda: "## References",
            lambda: "\n", lambda: "\n\n\n", lambda: "x\n\n", lambda: "* [leftmargin=*]", lambda: "[MISSING_PAGE_POST]", lambda: "\x1c\u2028",
        ])()

    kind = rng.random()
    text = rng.choice(["\n", "\n\n", " "]).join(part() for _ in range(rng.randint(0, 12)))
    if kind < 0.25:  # the end repeats itself
        again = " ".join(sentence(6) for _ in range(2)) + rng.choice([".", "", "!\n"])
        text += rng.choice(["", " "]) + rng.choice([str.upper, str])(again) + again * rng.randint(1, 4) + again[:rng.randint(0, 9)]
    elif kind < 0.5:  # references that are alike
        base = rng.choice(["Smith et al.", "A. Author, A. Another, Journal of Things", "X. Y", "abcd"])
        lines = []
        for i in range(rng.randint(8, 30)):
            line = "* [" + str(i) + "] " + base
            if rng.random() < 0.15: line = line.replace("t", "d", 1)
            if rng.random() < 0.05: line = rng.choice(["", sentence(), "## References"])
            lines.append(line)
        text = rng.choice([text, text + "\n## References\n", "## References\n\n", ""]) + rng.choice(["\n", "\n\n", ""]) + "\n".join(lines)
        text += rng.choice(["", "\n" + part(), "\n".join(part() for _ in range(6)), base[:5] + "12"])
    return text


def located(rng):
    place = lambda: "<loc_" + rng.choice([str(rng.randint(0, 999))] * 9 + ["", "٣", "x", "12345"]) + ">"
    run = lambda n: "".join(place() for _ in range(n))

    def part():
        return rng.choice([
            lambda: rng.choice(["a red boat", "it", "the image", "é boat", "", " two\n", "them", "a<b", "c>d"]) + run(rng.choice([4, 4, 4, 8, 8, 3, 5, 9, 12, 1])),
            lambda: "cat" + "<poly>" + run(rng.randint(0, 7)) + rng.choice(["<sep>", ""]) + run(rng.randint(0, 7)) + rng.choice(["</poly>", "</poly>", ""]),
            lambda: run(rng.randint(1, 9)) + rng.choice(["<sep>", "<poly>", "</poly>", ""]) + run(rng.randint(0, 5)),
            lambda: rng.choice(["<s>", "</s>", "<pad>", "<od>", "</od>", "<box>", "<bbox>", "<ground>", "<obj>", "<sep>", "<poly>", "\n", " ", "words", "<"]),
        ])()

    return "".join(part() for _ in range(rng.randint(0, 6)))


class Processors:
    def __init__(self):
        import nltk
        from transformers.models.donut.processing_donut import DonutProcessor
        from transformers.models.florence2.processing_florence2 import Florence2PostProcessor, Florence2Processor
        from transformers.models.nougat.tokenization_nougat import NougatTokenizer
        nltk.data.path.clear()  # no list of words
        self.donut = DonutProcessor
        self.donut_self = SimpleNamespace(tokenizer=SimpleNamespace(get_added_vocab=lambda: {t: i for i, t in enumerate(ADDED)}))
        self.donut_self.token2json = lambda *a, **k: DonutProcessor.token2json(self.donut_self, *a, **k)
        self.nougat = NougatTokenizer()
        self.florence = Florence2Processor
        config = {name: {} for name in ("pure_text", "ocr", "description_with_bboxes", "phrase_grounding", "polygons",
                                        "description_with_bboxes_or_polygons", "bboxes")}
        config["phrase_grounding"]["banned_grounding_tokens"] = BANNED
        types = {"<CAPTION>": "pure_text", "<OCR_WITH_REGION>": "ocr", "<OD>": "description_with_bboxes",
                 "<CAPTION_TO_PHRASE_GROUNDING>": "phrase_grounding", "<REFERRING_EXPRESSION_SEGMENTATION>": "polygons",
                 "<OPEN_VOCABULARY_DETECTION>": "description_with_bboxes_or_polygons", "<REGION_PROPOSAL>": "bboxes"}
        self.florence_self = SimpleNamespace(
            tasks_answer_post_processing_type=types,
            post_processor=Florence2PostProcessor(config, SimpleNamespace(all_special_tokens=[])))

    def tags(self, text):
        return self.donut_self.token2json(text)

    def page(self, text):
        return self.nougat.post_process_single(text, fix_markdown=True)

    def located(self, text, task, size, area):
        self.florence_self.post_processor.parse_task_config["ocr"] = {"AREA_THRESHOLD": area}
        return self.florence.post_process_generation(self.florence_self, text=text, task=task, image_size=size)[task]


def cases(count, rng, processors):
    for i in range(count):
        kind = ["tags", "page", "located"][i % 3]
        if kind == "tags":
            case = {"kind": kind, "text": tagged(rng), "added": ADDED}
            case["answer"] = processors.tags(case["text"])
        elif kind == "page":
            case = {"kind": kind, "text": page(rng)}
            case["answer"] = processors.page(case["text"])
        else:
            task = rng.choice(list(FORMS))
            case = {"kind": kind, "text": located(rng), "form": FORMS[task], "banned": BANNED, "area": rng.choice([0, 0, 0.01]),
                    "width": rng.randint(1, 5000), "height": rng.randint(1, 5000)}
            case["answer"] = processors.located(case["text"], task, (case["width"], case["height"]), case["area"])
        yield case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    made = cases(args.cases, rng, Processors())
    if args.file == "-":
        for case in made:
            print(json.dumps(case))
        return
    with open(args.file, "w", encoding="utf-8") as out:
        out.write("[" + ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in made) + "]\n")
    print(f"{args.cases} cases, seed {args.seed}", file=sys.stderr)


if __name__ == "__main__":
    main()
