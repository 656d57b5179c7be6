"""Makes pipelines.json and variants.json: what HuggingFace's libraries say about random tokenizers.

usage: make_cases.py [pipelines variants families classes]
(needs the Python packages `tokenizers`, `transformers` and `sentencepiece`)

pipelines.json: small random tokenizer.json documents with every kind of component that is built, and
their ids and texts. variants.json: checkpoints of tests/data/goldens with tokenizer files removed and
changed, as AutoTokenizer reads them. families.json: the same of classes that are not byte-level BPE:
SentencePiece models without a tokenizer.json, bytes, two vocabularies, tidied spaces. classes.json: what classes do
whatever their files list: languages, added tokens of those that run in Python, stages that are built anew. Characters are those of Unicode 3.2, because normal forms and
\\p{…} of expressions follow the Unicode version of each library.
"""
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer
from transformers import AutoTokenizer

logging.disable(logging.CRITICAL)
HERE = os.path.dirname(os.path.abspath(__file__))
R = random.Random(20)
WORDS = ["the", "don't", "I'll", "'S", "a b c", "abc", "ab", "d'é", "e\u0301", "北京", "123", "½", "٣",
         "Ⅷ", "<s>", "</s>", "<mask>", "<new>", "foo", "<x y>", "\u00a0", "\u0085", "\u180e", "\u3000",
         "\u2028", "\u200d", "😀", "_", "...", "?!", "\n", "\r\n", "\t", "\x00"]


def assigned(c):
    return unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs")


def text(extra):
    out = []
    for _ in range(R.choice([0, 1, 3, 8, 16])):
        k = R.random()
        if k < .4:
            out.append(R.choice(WORDS))
        elif k < .65 and extra:
            out.append(R.choice(extra))
        elif k < .85:
            out.append(R.choice([" ", "  ", "   ", "\n", " \n "]))
        else:
            c = chr(R.choice([R.randint(32, 126), R.randint(0, 0x2FFF), R.randint(0x10000, 0x1FFFF)]))
            out.append(c)
    return "".join(c for c in "".join(out) if assigned(c))


def cases(tokenizer, extra, count):
    out, decode = [], []
    while len(out) < count:
        a, b = text(extra), text(extra)
        try:
            ids = tokenizer.encode(a).ids
            out.append({"text": a, "ids": ids,
                        "ids_no_special": tokenizer.encode(a, add_special_tokens=False).ids,
                        "text_pair": b, "pair_ids": tokenizer.encode(a, b).ids})
        except BaseException:  # tokens that eat each other's white space are a panic there
            continue
        some = [R.randrange(tokenizer.get_vocab_size() + 2) for _ in range(R.randint(0, 12))]
        decode.append({"ids": some, "decoded": tokenizer.decode(some, skip_special_tokens=False),
                       "decoded_skip_special": tokenizer.decode(some)})
    return {"cases": out, "decode_only": decode}


def split():
    if R.random() < .3:
        pattern = {"String": R.choice([" ", "a", "<>", "ab", "北", "\n"])}
    else:
        pattern = {"Regex": R.choice([
            r"\s+", r"\S", r"[^\s]+", r" ?\p{L}+", r"\p{N}{1,3}", r"a*", r"b|", r"$", r"^a", r"[\h]+",
            r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+",
            r"[a-c\s]+", r"(a)(b)?", r"\w+|\W", r".", r"\bab?", r"\B", r"[\S\n]+"])}
    behavior = R.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": R.random() < .3}


def byte_level():
    return {"type": "ByteLevel", "add_prefix_space": R.random() < .5, "trim_offsets": True,
            "use_regex": R.random() < .6}


def model(byte_alphabet):
    if byte_alphabet:
        alphabet = list("abcdeIl'Ġ<>_Ċ1") + ["Ã", "©", "å", "Į", "Ĺ"]
    else:
        alphabet = R.sample(list("abcdeé北<>_ '1\nĠ"), R.randint(4, 14))
    prefix, suffix = R.choice([(None, None), ("", ""), ("##", ""), ("", "</w>"), ("##", "</w>")])
    p, s = prefix or "", suffix or ""
    tokens = list(dict.fromkeys(x + c + y for c in alphabet for x in ("", p) for y in ("", s)))
    R.shuffle(tokens)
    merges = []
    for _ in range(R.randint(0, 30)):
        a, b = R.choice(tokens), R.choice(tokens)
        if not b.startswith(p) or len(a + b) > 12:
            continue
        merges.append([a, b])
        if a + b[len(p):] not in tokens:
            tokens.append(a + b[len(p):])
    if R.random() < .5 and all(" " not in a + b for a, b in merges):
        merges = [a + " " + b for a, b in merges]
    fallback = R.random() < .25
    if fallback:
        tokens += [f"<0x{i:02X}>" for i in range(256) if i % 16 != 9]
    unknown = R.choice([None, "<unk>"])
    if unknown:
        tokens.append(unknown)
    return {"type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": prefix,
            "end_of_word_suffix": suffix, "fuse_unk": R.random() < .5, "byte_fallback": fallback,
            "ignore_merges": R.random() < .3, "vocab": {t: i for i, t in enumerate(tokens)},
            "merges": merges}


def added_tokens(vocab):
    out = []
    for c in R.sample(["<s>", "</s>", "<mask>", "a", "ab", "abc", " a", "a ", " ", "  ", "\n", "<", "<a>",
                       "é", "北", "_", "b c", "1", "'s", "<s", "s>"], R.choice([0, 2, 5])):
        flags = {k: R.random() < .4 for k in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        out.append({"id": vocab.get(c, len(vocab) + len(out)), "content": c, **flags})
    return out


def post_processor():
    special = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    a, b = ({"Sequence": {"id": i, "type_id": 0}} for i in "AB")
    template = {"type": "TemplateProcessing", "single": [special("X"), a, special("Y")],
                "pair": R.choice([[b, special("Y"), a], [special("X"), a, b, a]]),
                "special_tokens": {"X": {"id": "X", "ids": [1, 2], "tokens": ["x", "x"]},
                                   "Y": {"id": "Y", "ids": [0], "tokens": ["y"]}}}
    offsets = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    roberta = {"type": "RobertaProcessing", "sep": ["s", 2], "cls": ["c", 0], "trim_offsets": False,
               "add_prefix_space": False}
    return R.choice([None, roberta, {"type": "BertProcessing", "sep": ["s", 2], "cls": ["c", 0]}, template,
                     offsets, {"type": "Sequence", "processors": R.choice([[], [offsets, template]])}])


def document():
    bytes_only = R.random() < .4
    parts = [split() for _ in range(R.randint(0, 2))] + ([byte_level()] if R.random() < .3 else [])
    pre = byte_level() if bytes_only else R.choice(
        [None, split(), split(), {"type": "Sequence", "pretokenizers": parts}])
    forms = [{"type": f} for f in ("NFC", "NFD", "NFKC", "NFKD")]
    normalizer = R.choice([None] * 6 + forms + [{"type": "Sequence", "normalizers": forms[1:3]}])
    m = model(bytes_only)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(m["vocab"]),
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post_processor(),
            "decoder": byte_level(), "model": m}


def pipelines(count):
    out = []
    while len(out) < count:
        doc = document()
        tokenizer = Tokenizer.from_str(json.dumps(doc))
        extra = [t["content"] for t in doc["added_tokens"]] + list("abcde ")
        out.append({"document": doc, **cases(tokenizer, extra, 6)})
    return out


def token():
    content = R.choice(["<s>", "</s>", "<mask>", "<new>", "<x y>", "foo", "<pad>"])
    flags = {k: R.random() < .5 for k in ("lstrip", "rstrip", "single_word", "normalized", "special")}
    return {"content": content, **{k: v for k, v in flags.items() if R.random() < .5}}


def variant():
    base = R.choice(["bart-model-only", "bart-model-only", "blenderbot-tiny"])
    files = ["tokenizer.json", "special_tokens_map.json", "tokenizer_config.json"]
    remove = [f for f in files if R.random() < .4]
    write, config, special = {}, {}, {}
    names = ["bos_token", "eos_token", "sep_token", "cls_token", "mask_token", "unk_token"]
    if R.random() < .4:
        config["add_prefix_space"] = R.random() < .5
    if R.random() < .4:
        config[R.choice(names)] = R.choice([{"__type": "AddedToken", **token()}, "<new>", "</s>"])
    if R.random() < .3:
        config["added_tokens_decoder"] = {str(i): token() for i in R.sample(range(900), 3)}
    if R.random() < .2:
        config[R.choice(["additional_special_tokens", "extra_special_tokens"])] = ["<e1>", "foo"]
    if R.random() < .1:
        config["image_token"] = "<img>"
    if R.random() < .1:
        config["split_special_tokens"] = True
    if R.random() < .3:
        config["tokenizer_class"] = R.choice(["BartTokenizerFast", "RobertaTokenizer", "BlenderbotTokenizer"])
    if "tokenizer.json" not in remove and R.random() < .2:
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if R.random() < .3:
        special[R.choice(names[:5])] = R.choice([token(), "<new>", "foo"])
    if R.random() < .3:
        write["added_tokens.json"] = {"<new>": 3000, "bar baz": 3001}
    if config:
        write["tokenizer_config.json"] = config
    if special:
        write["special_tokens_map.json"] = special
    return {"base": base, "remove": remove, "write": write}


def variants(count):
    out = []
    while len(out) < count:
        v = variant()
        goldens = os.path.join(HERE, "..", "goldens", v["base"])
        with tempfile.TemporaryDirectory() as d:
            for f in os.listdir(goldens):
                if f not in v["remove"] and f != "tokenizer_cases.json":
                    shutil.copyfile(os.path.join(goldens, f), os.path.join(d, f))
            if not os.path.exists(os.path.join(d, "config.json")):
                with open(os.path.join(d, "config.json"), "w") as f:
                    json.dump({"model_type": v["base"].split("-")[0]}, f)
            for name, content in v["write"].items():  # on top of what the file says
                path, old = os.path.join(d, name), {}
                if os.path.exists(path):
                    with open(path) as f:
                        old = json.load(f)
                with open(path, "w") as f:
                    json.dump({**old, **content}, f)
            backend = AutoTokenizer.from_pretrained(d)._tokenizer
        extra = ["<mask>", "<new>", "foo", "<x y>", "<s>", "bar baz", "<e1>", "<img>"]
        out.append({**v, "model_type": v["base"].split("-")[0], **cases(backend, extra, 5)})
    return out


TIDIED = {"tokenizer_config.json": {"clean_up_tokenization_spaces": True}}
AS_IT_IS = {"tokenizer_config.json": {"clean_up_tokenization_spaces": False}}
TWICE = {"tokenizer_config.json": {"clean_up_tokenization_spaces": True,
         "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True}}
PIECES = ["tokenizer.json", "special_tokens_map.json"]


def of_class(name, **more):
    return {"tokenizer_config.json": {"tokenizer_class": name, "additional_special_tokens": None, **more}}


def reversed_vocabulary(base):
    with open(os.path.join(HERE, "..", "goldens", base, "vocab.json")) as f:
        ids = json.load(f)
    fixed = {t: i for t, i in ids.items() if t in ("</s>", "<unk>", "<pad>")}
    rest = [t for t in ids if t not in fixed]
    return {**fixed, **{t: ids[u] for t, u in zip(rest, reversed(rest))}}


FAMILIES = [
    ("umt5-tiny", [], {}), ("umt5-tiny", [], AS_IT_IS), ("t5-tiny", [], TIDIED), ("plbart-tiny", [], AS_IT_IS),
    ("marian-tiny", [], TIDIED), ("blenderbot-small-tiny", [], TIDIED), ("bart-tiny", [], TIDIED),
    ("bart-tiny", [], TWICE), ("mbart50-tiny", PIECES, {}), ("t5-tiny", PIECES, of_class("T5Tokenizer")),
    ("t5-tiny", PIECES, of_class("T5Tokenizer", extra_ids=7)), ("umt5-tiny", PIECES, of_class("T5Tokenizer", extra_ids=0)),
    ("mbart50-tiny", PIECES, of_class("MBartTokenizer")), ("t5-tiny", PIECES, of_class("PegasusTokenizer")),
    ("t5-tiny", PIECES, of_class("PegasusTokenizer", offset=9)), ("plbart-tiny", PIECES, of_class("NllbTokenizer", src_lang="fra_Latn")),
    ("t5-tiny", PIECES, of_class("ByT5Tokenizer")), ("t5-tiny", PIECES, of_class("ByT5Tokenizer", extra_ids=3)),
    ("t5-tiny", PIECES, of_class("ByT5Tokenizer", eos_token="<x y>", clean_up_tokenization_spaces=True)),
    ("marian-tiny", [], {"target_vocab.json": reversed_vocabulary("marian-tiny"),
                         "tokenizer_config.json": {"separate_vocabs": True}}),
]
MODEL_TYPES = {"T5Tokenizer": "t5", "MBartTokenizer": "mbart", "PegasusTokenizer": "pegasus", "NllbTokenizer": "m2m_100",
               "ByT5Tokenizer": "t5"}
SENTENCES = ["do n't , it 's ' x ' ! a . b ?  'm   've ' n't", "<extra_id_0> a</s> b <pad>", "\u00e9\u20ac x\U0001f600 \u0301",
             "The committee met twice, and decided nothing.", "<unk_2>a <mask> en_XX fr_XX", " .", "a</s>", ""]


def family_case(t, a, b):
    ids = t(a)["input_ids"]
    c = {"text": a, "ids": ids, "ids_no_special": t(a, add_special_tokens=False)["input_ids"],
         "text_pair": b, "pair_ids": t(a, b)["input_ids"]}
    c["decoded"] = t.decode(ids)
    c["decoded_skip_special"] = t.decode(ids, skip_special_tokens=True)
    c["decoded_no_special"] = t.decode(c["ids_no_special"])
    return c


def random_ids(t, prefer):
    out = []
    for _ in range(R.randint(1, 16)):
        out.append(R.choice(prefer) if prefer and R.random() < .6 else R.randrange(len(t)))
    return out


def families():
    out = []
    for base, remove, content in FAMILIES:
        named = content.get("tokenizer_config.json", {}).get("tokenizer_class")  # the model's has to fit
        model_type = MODEL_TYPES.get(named, base.split("-")[0])
        goldens = os.path.join(HERE, "..", "goldens", base)
        with tempfile.TemporaryDirectory() as d:
            for f in os.listdir(goldens):
                if f not in remove and "golden" not in f and f not in ("tokenizer_cases.json", "model.safetensors"):
                    shutil.copyfile(os.path.join(goldens, f), os.path.join(d, f))
            with open(os.path.join(d, "config.json"), "w") as f:
                json.dump({"model_type": model_type}, f)
            for name, changes in content.items():
                path, old = os.path.join(d, name), {}
                if os.path.exists(path):
                    with open(path) as f:
                        old = json.load(f)
                with open(path, "w") as f:
                    json.dump({**old, **changes}, f)
            t = AutoTokenizer.from_pretrained(d)
        prefer = [i for i in t(". , ' ' n ' t 's do n't ?")["input_ids"]]
        decode = [random_ids(t, prefer) for _ in range(8)]
        out.append({"base": base, "remove": remove, "write": content, "model_type": model_type,
                    "class": type(t).__name__,
                    "cases": [family_case(t, a, R.choice(SENTENCES[:4])) for a in SENTENCES],
                    "decode_only": [{"ids": i, "decoded": t.decode(i), "decoded_skip_special": t.decode(i, skip_special_tokens=True)} for i in decode]})
    return out


def flagged(content, **flags):
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"content": content, **plain, **flags}


ADDED = [flagged("<new>"), flagged("<newer>", single_word=True), flagged("new>x", lstrip=True), flagged("ab", rstrip=True),
         flagged("b <n", single_word=True, rstrip=True), flagged("[X]", lstrip=True, rstrip=True, special=True)]


def fairseq_vocabulary(base):
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor()
    model.Load(os.path.join(HERE, "..", "goldens", base, "sentencepiece.bpe.model"))
    tokens = ["<s>", "<pad>", "</s>", "<unk>"] + [model.IdToPiece(i) for i in range(3, len(model))]
    return {t: i for i, t in enumerate(tokens)}


def python_classes():
    """Vocabulary files and the size of the vocabulary, for each tokenizer that runs in Python."""
    vocabulary = fairseq_vocabulary("plbart-tiny")
    yield "plbart-tiny", {"vocab.json": vocabulary}, "M2M100Tokenizer", len(vocabulary) + 100
    for base, name in (("marian-tiny", "MarianTokenizer"), ("blenderbot-small-tiny", "BlenderbotSmallTokenizer")):
        with open(os.path.join(HERE, "..", "goldens", base, "vocab.json")) as f:
            yield base, {}, name, len(json.load(f))
    yield "plbart-tiny", {}, "PLBartTokenizer", len(vocabulary) + 4
    yield "t5-tiny", {}, "ByT5Tokenizer", 259


def class_variants():
    for base, files, name, size in python_classes():
        settings = [{}, {"additional_special_tokens": ["<foo>", "ab"]}, {"z_token": "<z>", "a_token": "<a>"}]
        settings.append({"extra_special_tokens": {"z_token": "<z>", "a_token": "<a>"}})
        for _ in range(3):
            tokens = R.sample(ADDED, 4)
            settings.append({"added_tokens_decoder": {str(size + i): t for i, t in enumerate(tokens)}})
        if name == "M2M100Tokenizer":
            settings += [{"additional_special_tokens": [f"__{x}__" for x in ("zu", "fr", "en")]}, {"src_lang": "ss"},
                         {"language_codes": "wmt21", "src_lang": "is"}]
        if name == "PLBartTokenizer":
            settings += [{"language_codes": "multi", "src_lang": "php"}, {"additional_special_tokens": ["__python__", "<foo>"]}]
        if name == "ByT5Tokenizer":
            settings += [{"extra_special_tokens": []}, {"extra_ids": 3}]
        for setting in settings:
            yield base, ["special_tokens_map.json", "tokenizer.json"], {
                **files, "tokenizer_config.json": {"tokenizer_class": name, **setting}}
    nothing = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "ByteFallback"}}
    for base, name in (("t5-tiny", "T5Tokenizer"), ("mbart50-tiny", "MBart50Tokenizer"), ("mbart50-tiny", "MBartTokenizer"),
                       ("mbart50-tiny", "XLMRobertaTokenizer"), ("mbart50-tiny", "CamembertTokenizer"),
                       ("t5-tiny", "XGLMTokenizer")):
        for setting in ({}, {"additional_special_tokens": ["<foo>", "ab"]}, {"z_token": "<z>", "a_token": "<a>"}):
            for changes in (nothing, {**nothing, "added_tokens": []}):
                yield base, ["special_tokens_map.json"], {
                    "tokenizer_config.json": {"tokenizer_class": name, **setting}, "tokenizer.json": changes}
    yield "umt5-tiny", ["special_tokens_map.json"], {"tokenizer_config.json": {"tokenizer_class": "T5Tokenizer"},
                                                     "tokenizer.json": {"post_processor": None}}


CLASS_TEXTS = ["x.<new>.y", "<new><newer> new>x", "a\n <newer>\tb <n ab", " ab [X]\u00a0<new> ", "__en__ a __zu__", "<foo><z><a> b",
               "<s>a</s> <pad><unk> <mask>\n<mask>", "en_XX a ro_RO", "__java__ x __php__", ">>fra<< ab", "<extra_id_0> a", ""]


def classes():
    out = []
    for base, remove, content in class_variants():
        model_type = "umt5" if base == "umt5-tiny" else ""
        goldens = os.path.join(HERE, "..", "goldens", base)
        with tempfile.TemporaryDirectory() as d:
            for f in os.listdir(goldens):
                if f not in remove and f.startswith(("tokenizer.json", "vocab", "merges", "source", "target", "sentence", "spiece")):
                    shutil.copyfile(os.path.join(goldens, f), os.path.join(d, f))
            with open(os.path.join(d, "config.json"), "w") as f:
                json.dump({"model_type": model_type} if model_type else {}, f)
            for name, changes in content.items():
                path, old = os.path.join(d, name), {}
                if os.path.exists(path) and name != "vocab.json":
                    with open(path) as f:
                        old = json.load(f)
                with open(path, "w") as f:
                    json.dump({**old, **changes}, f)
            t = AutoTokenizer.from_pretrained(d)
        cases, decode = [], []
        for text in CLASS_TEXTS:
            ids = t(text)["input_ids"]
            cases.append({"text": text, "ids": ids, "ids_no_special": t(text, add_special_tokens=False)["input_ids"]})
            if "M2M100" not in type(t).__name__ or len(ids) < 12:
                decode.append(ids)
        decode += [random_ids(t, [0, 1, 2, 3]) for _ in range(3)]
        decode = [{"ids": i, "decoded": t.decode(i), "decoded_skip_special": t.decode(i, skip_special_tokens=True)} for i in decode]
        out.append({"base": base, "remove": remove, "write": content, "model_type": model_type, "class": type(t).__name__,
                    "cases": cases, "decode_only": decode})
    return out


def write(name, items):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        lines = [json.dumps(i, ensure_ascii=False, separators=(",", ":")) for i in items]
        f.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    parts = sys.argv[1:] or ["pipelines", "variants", "families", "classes"]
    if "pipelines" in parts:
        write("pipelines.json", pipelines(48))
    if "variants" in parts:
        write("variants.json", variants(40))
    if "families" in parts:
        write("families.json", families())
    if "classes" in parts:
        write("classes.json", classes())
