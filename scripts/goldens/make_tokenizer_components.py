#!/usr/bin/env python3
"""What the `tokenizers` library makes of texts, for each component of tokenizer.json and each of its fields.

    scripts/goldens/make_tokenizer_components.py tests/data/tokenizers/components.json

Needs `tokenizers` from PyPI (the answers in the repository are of 0.23.3). Nothing is random.
    scripts/goldens/make_tokenizer_components.py --seeds tests/fuzz/corpus/tokenizer_fuzzer     writes seeds of the fuzzer
    scripts/goldens/make_tokenizer_components.py --tables     prints which characters the library's classes have, to check
                                                              text/unicode/library_classes.cc by
"""
import json
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

TEXTS = [
    "", " ", "a", "Hello  World!", " don't you'll  ", "x\t\ny\r\n", "ÀÉÎ naïve Å ﬁ ½ ²", "a\u0301\u0323b\u0327", "北京 東京x",
    "ひらがなカタカナー漢字", "한국어 가\u1100\u1161", "สวัสดีครับ", "مُحَمَّد ٣٤٥", "नमस्ते क्षेत्र", "ΣΊΣΥΦΟΣ İstanbul ẞß", "👨‍👩‍👧 🇩🇪👍🏽", "a\x00b\x01\x7f\x85c\ufffd\ue000",
    "\u00a0\u1680\u2003\u2028\u200b\u200d\u202f\u3000\ufeffz", "123 4567 ⅣⅧ ①", "«foo-bar_baz», (x=y+z)*2 $5€ ^`|~", "▁a ▁b▁", "aaaa  bb--cc",
    "\u1734\u166d\u1885\ua9bd\u0953\u0589\u061c\u1cf2", "\u1c89\u10d5\U00010d50\U00016ea0\U0001171e\U000111c9\U0002ebf0\U00011de0", "\u0378\U000f0000\u08e2\u202e\u00ad",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
EXPRESSIONS = [GPT2, CL100K, O200K, r"\s+", r"\w+|[^\w\s]+", r"[一-龥ぁ-ゟ゠-ヿ]+", r"\p{Han}+", r"[a-z&&[^aeiou]]+", r"a{,2}", r"x*", r"(?=[A-Z])",
               r"\b", r"[[:punct:]]", r"\p{^L}", r"\W+", r"[\w]+", r"[^\w\s]+", r"\d", r".", r"$", r"\h+", r"(?i:ss)"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def all_normalizers():
    for clean in (True, False):
        for chinese in (True, False):
            yield {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": None,
                   "lowercase": clean != chinese}
    for accents in (True, False):
        yield {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": accents,
               "lowercase": not accents}
    for name in ("ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents"):
        yield {"type": name}
    yield {"type": "Prepend", "prepend": "▁x"}
    for left in (True, False):
        for right in (True, False):
            yield {"type": "Strip", "strip_left": left, "strip_right": right}
    for string in ("a", "--", ""):
        yield {"type": "Replace", "pattern": {"String": string}, "content": "<>"}
    for expression in (r"\s+", r"[^a-z]", r"a|aa", r"x*"):
        yield {"type": "Replace", "pattern": {"Regex": expression}, "content": "_"}
    nfd, strip = {"type": "NFD"}, {"type": "StripAccents"}
    yield sequence("normalizers")
    yield sequence("normalizers", nfd, sequence("normalizers", strip, {"type": "Lowercase"}))


def all_pre_tokenizers():
    for name in ("BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit"):
        yield {"type": name}
    for prefix in (True, False):
        for regex in (True, False):
            yield {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": prefix, "use_regex": regex}
    for delimiter in " a北":
        yield {"type": "CharDelimiterSplit", "delimiter": delimiter}
    for one in (True, False):
        yield {"type": "Digits", "individual_digits": one}
    for length in (1, 3):
        yield {"type": "FixedLength", "length": length}
    yield {"type": "FixedLength"}
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    yield {"type": "Metaspace", "replacement": "_", "add_prefix_space": True, "str_rep": "_"}
    yield {"type": "Punctuation"}
    for behavior in BEHAVIORS:
        yield {"type": "Punctuation", "behavior": behavior}
        for invert in (True, False):
            yield {"type": "Split", "pattern": {"String": "a"}, "behavior": behavior, "invert": invert}
            yield {"type": "Split", "pattern": {"Regex": r"\s|-"}, "behavior": behavior, "invert": invert}
    for expression in EXPRESSIONS:
        yield {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    yield {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False}
    first = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    yield sequence("pretokenizers", {"type": "WhitespaceSplit"}, first)
    yield sequence("pretokenizers", {"type": "Whitespace"}, sequence("pretokenizers", {"type": "Digits", "individual_digits": True}))
    yield sequence("pretokenizers")


TOKENS = [[], ["a"], ["▁a", "b▁", "▁"], ["▁▁a▁", "▁"], ["a</w>", "b", "c</w>"], ["un", "##a", "b", "##c", ".", "n't", "do", "not"],
          ["<0xE5>", "<0x8C>", "<0x97>", "x", "<0xE5>", "<0x8C>", "a", "<0x+5>", "<0x4>", "<0xG0>"], ["<0x41>"],
          ["<pad>", "h", "h", "<pad>", "e", "|", "|", "l", "<pad>", "l", "."], ["Ġa", "Ã", "©", "x y", "å"], ["  a", "a", " ", "aa  "],
          ["▁", "a", "ba", "cd", "abcd"]]


def all_decoders():
    for suffix in ("</w>", "a", ""):
        yield {"type": "BPEDecoder", "suffix": suffix}
    for name in ("ByteFallback", "Fuse"):
        yield {"type": name}
    yield {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    for cleanup in (True, False):
        yield {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": cleanup}
        yield {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}
    yield {"type": "WordPiece", "prefix": "", "cleanup": False}
    for scheme in ("always", "first", "never"):
        yield {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    for pattern in ({"String": "▁"}, {"String": "ab"}, {"Regex": "[ab]+"}):
        yield {"type": "Replace", "pattern": pattern, "content": " "}
    for start, stop in ((1, 0), (2, 0), (0, 1)):
        yield sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                       {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": start, "stop": stop})
    yield {"type": "Strip", "content": "a", "start": 1, "stop": 0}
    yield sequence("decoders", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                   {"type": "Replace", "pattern": {"String": "ab"}, "content": "-"}, {"type": "WordPiece", "prefix": "##", "cleanup": True})
    yield sequence("decoders", {"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": "a."}, "content": ""})
    yield sequence("decoders")


LETTERS = {c: i + 4 for i, c in enumerate("abcé")}
PIECES = {"<unk>": 0, "a b": 1, "<0xC3>": 2, "<0x9F>": 3, **LETTERS, "ab": 8, "abc": 9, "#b": 10, "#c": 11, "a#b": 12, "c$": 13, "#c$": 14,
          "##": 15, "<0x23>": 16, "<0xE5>": 17, "#bc": 18}
WORDS = ["a", "ab", "abc", "abcab", "xa", "xxa", "ßa", "xß", "é", "北", "a b", "cc", "<unk>", "x<unk>y", "bcbc", "aß北b"]


def all_models():
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
           "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": PIECES, "merges": [["a", "b"], ["ab", "c"]]}
    yield bpe
    for more in ({"unk_token": "<unk>"}, {"unk_token": "<unk>", "fuse_unk": True}, {"byte_fallback": True},
                 {"unk_token": "<unk>", "byte_fallback": True}, {"ignore_merges": True}, {"dropout": 0.0}, {"dropout": 1.0},
                 {"continuing_subword_prefix": "#", "merges": [["a", "#b"], ["#b", "#c"]], "unk_token": "<unk>"},
                 {"end_of_word_suffix": "$", "merges": []}, {"merges": ["#version: 0.2", "a b", "ab c"]},
                 {"continuing_subword_prefix": "#", "end_of_word_suffix": "$", "merges": [], "byte_fallback": True, "unk_token": "<unk>"}):
        yield {**bpe, **more}
    yield {"vocab": PIECES, "merges": ["a b", "ab c"]}
    scores = [[token, -1.5 * (i % 7) - 1] for i, token in enumerate(PIECES)]
    yield {"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": False}
    yield {"type": "Unigram", "unk_id": 0, "vocab": scores, "byte_fallback": True}
    yield {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["a", -2.0], ["xx", -30.0], ["b", -1.8984972911602638],
                                                     ["ab", -1.898497291160264]]}
    for most in (100, 2):
        yield {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "#", "max_input_chars_per_word": most, "vocab": PIECES}
    yield {"unk_token": "<unk>", "continuing_subword_prefix": "", "max_input_chars_per_word": 10, "vocab": PIECES}
    yield {"type": "WordLevel", "unk_token": "<unk>", "vocab": PIECES}
    yield {"unk_token": "é", "vocab": PIECES}


def template(single, pair):
    def parts(text):
        return [{"Sequence": {"id": part[1], "type_id": 0}} if part[0] == "$" else {"SpecialToken": {"id": part, "type_id": 0}}
                for part in text.split()]
    return {"type": "TemplateProcessing", "single": parts(single), "pair": parts(pair),
            "special_tokens": {"<s>": {"id": "<s>", "ids": [20], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [21, 22], "tokens": ["</s>", "x"]}}}


def all_post_processors():
    bert = {"type": "BertProcessing", "sep": ["</s>", 21], "cls": ["<s>", 20]}
    roberta = {**bert, "type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    yield from (bert, roberta, {**roberta, "type": "BertProcessing"}, {**bert, "type": "RobertaProcessing"}, byte_level)
    yield template("<s> $A </s>", "<s> $A </s> $B </s>")
    yield template("$A", "$B $A")
    yield template("</s> $A <s> $A", "$A <s> $B <s> $A")
    yield sequence("processors", byte_level, template("<s> $A </s>", "<s> $A </s> $B </s>"))
    yield sequence("processors", bert, template("<s> $A", "$B $A </s>"), roberta)
    yield sequence("processors")


def added(content, **flags):
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {"content": content, **base, **flags}


ADDED_TEXTS = ["a<m>b", "a <m> b", "<m><m>", " <m>  <m> ", "É<m>é", "x tok y", "xtok tok_ tok-tok", "TOK <M>", "a\u3000<m>\n<m>", "<m>  tok", "  ", "a", ""]


def all_documents():
    """Whole files: added tokens with their flags, with a normalizer, behind "first"; no decoder; truncation and padding."""
    model = {"type": "WordLevel", "unk_token": "<unk>",
             "vocab": {t: i for i, t in enumerate(["<unk>", "a", "b", "é", "▁a", "▁b", "▁", "x", "▁x", "É", "e", "y", "▁y", "tok", "-", "_"])}}
    first = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": first,
            "post_processor": None, "decoder": {"type": "WordPiece", "prefix": "▁", "cleanup": False}, "model": model}
    flags = ({}, {"single_word": True}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}, {"normalized": True},
             {"special": True}, {"special": True, "normalized": True})
    for normalizer in (None, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Prepend", "prepend": "x"}):
        for flag in flags:
            tokens = [{"id": 16, **added("<m>", **flag)}, {"id": 13, **added("tok", **flag)}, {"id": 17, **added("<n>", **flag)}]
            yield {**base, "normalizer": normalizer, "added_tokens": tokens}
    for flag in ({}, {"lstrip": True, "rstrip": True}, {"single_word": True}):  # nothing is left of the token
        tokens = [{"id": 16, **added("<m>", normalized=True)}, {"id": 13, **added("tok", normalized=True, **flag)}]
        yield {**base, "normalizer": {"type": "Replace", "pattern": {"String": "tok"}, "content": ""}, "added_tokens": tokens}
    yield {**base, "decoder": None, "pre_tokenizer": None}
    yield {**base, "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
           "padding": {"strategy": {"Fixed": 8}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}}


SPLIT_TEXTS = ["", "a", " a", "a b", "  a  b ", "\u0301a", "a\u0301\u0323b", "e\u0301\u0323 \u0323\u0301", "\u0344\u0323x", "Éa", "北a京", "\x01a b", " \u3000a\n", "½ a",
               "a1-b2", "İx", "가\u11a8", "\U00010490 x", "ﬁ\x00ﬁ"]


def all_splitters():
    """A normalizer and a pre-tokenizer: where the library's alignment of a text with the input decides what the words are."""
    def metaspace(scheme, split=True):
        return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}

    def replaced(pattern, content):
        return {"type": "Replace", "pattern": pattern, "content": content}

    def chain(key, parts):
        return None if not parts else parts[0] if len(parts) == 1 else sequence(key, *parts)

    def splits(*parts):
        return chain("pretokenizers", parts)

    first, one, words = metaspace("first"), {"type": "FixedLength", "length": 1}, {"type": "Whitespace"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    no_regex = {**byte_level, "add_prefix_space": False, "use_regex": False}
    prepend, lower, nmt = {"type": "Prepend", "prepend": "▁"}, {"type": "Lowercase"}, {"type": "Nmt"}
    nothing, edge, space = replaced({"Regex": "x*"}, "_"), replaced({"Regex": r"\b"}, "<"), replaced({"String": " "}, "▁")
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    digits = {"type": "Digits", "individual_digits": True}
    for pre in (splits(first), splits(words, first), splits(metaspace("first", False), words, first), splits(one, first),
                splits(no_regex, words, first), splits(digits, metaspace("first", False), one)):
        for parts in ((), (prepend,), (strip,), (lower, prepend, {"type": "NFD"}), (space,), (replaced({"String": "a"}, ""),), (bert,)):
            yield chain("normalizers", parts), pre
    forms = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD")]
    for step in (*forms, nmt, bert, strip):
        yield chain("normalizers", (step, edge)), byte_level
    yield chain("normalizers", (nothing, strip)), None
    yield chain("normalizers", (nothing, lower)), None  # the library fails on all texts
    for form in forms:
        yield form, splits(one, byte_level)
        yield chain("normalizers", ({"type": "ByteLevel"}, form, form)), splits(first, one)


def words_of(normalizer, pre_tokenizer, text):
    """Of a model whose tokens are bytes."""
    bytes_only = {"type": "BPE", "byte_fallback": True, "vocab": {"<0x%02X>" % b: b for b in range(256)}, "merges": []}
    encoding = load(normalizer=normalizer, pre_tokenizer=pre_tokenizer, model=bytes_only).encode(text)
    words = {}
    for word, byte in zip(encoding.word_ids, encoding.ids):
        words[word] = words.get(word, b"") + bytes([byte])
    return [word.decode() for word in words.values()]


EMPTY = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
         "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}}


def load(**parts):
    return Tokenizer.from_str(json.dumps({**EMPTY, **parts}))


def answer(function):
    """null where the library has an error."""
    try:
        return function()
    except BaseException:  # a panic of the library's is no Exception
        return None


def make():
    out = {"tokenizers": tokenizers.__version__, "texts": TEXTS, "tokens": TOKENS, "words": WORDS, "added_texts": ADDED_TEXTS}
    out["normalizers"] = [[c, [load(normalizer=c).normalizer.normalize_str(t) for t in TEXTS]] for c in all_normalizers()]
    out["pre_tokenizers"] = [[c, [[w for w, _ in load(pre_tokenizer=c).pre_tokenizer.pre_tokenize_str(t)] for t in TEXTS]]
                             for c in all_pre_tokenizers()]
    out["decoders"] = [[c, [answer(lambda: load(decoder=c).decoder.decode(t)) for t in TOKENS]] for c in all_decoders()]
    out["models"] = []
    for c in all_models():
        tokenizer = load(model=c)
        out["models"].append([c, [answer(lambda: tokenizer.encode(w, add_special_tokens=False).ids) for w in WORDS]])
    out["post_processors"] = []
    for c in all_post_processors():
        tokenizer = load(post_processor=c, model={"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}},
                         pre_tokenizer={"type": "FixedLength", "length": 1})
        out["post_processors"].append([c, [tokenizer.encode("ab", "b", add_special_tokens=s).ids for s in (True, False)] +
                                       [tokenizer.encode("ab", add_special_tokens=s).ids for s in (True, False)]])
    out["split_texts"] = SPLIT_TEXTS
    out["splitters"] = [[c, [answer(lambda: words_of(*c, t)) for t in SPLIT_TEXTS]] for c in all_splitters()]
    out["documents"] = []
    for c in all_documents():
        tokenizer = load(**c)
        tokenizer.no_truncation()  # as transformers, for a single text
        tokenizer.no_padding()
        cases = []
        for text in ADDED_TEXTS:
            ids = answer(lambda: tokenizer.encode(text).ids)
            cases.append(None if ids is None else [ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)])
        out["documents"].append([c, cases])
    return out


def ranges(matches):
    found = []
    for c in range(0x110000):
        if 0xD800 <= c <= 0xDFFF or not matches(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return " ".join(f"{a:X}-{b:X}" if a != b else f"{a:X}" for a, b in found)


def print_tables():
    digits, punctuation = pre_tokenizers.Digits(True), pre_tokenizers.Punctuation()
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    lower = normalizers.Lowercase()
    print("is_numeric", ranges(lambda c: len(digits.pre_tokenize_str(f"a{c}a")) == 3))
    print("is_punctuation", ranges(lambda c: len(punctuation.pre_tokenize_str(f"a{c}a")) == 3))
    print("is_control", ranges(lambda c: clean.normalize_str(c) == ""))
    print("is_mark", ranges(lambda c: normalizers.StripAccents().normalize_str(c) == ""))
    print("is_nonspacing_mark", ranges(lambda c: accents.normalize_str(c) == ""))
    print("append_lowercase", ranges(lambda c: lower.normalize_str(c) != c))
    for name in ("L", "Lu", "Ll", "Lm", "Lo", "M", "Mn", "Mc", "N", "Nd", "P", "Po", "S", "So"):
        split = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed")
        print(name, ranges(lambda c: not split.pre_tokenize_str(c)))


def write_seeds(folder):
    """Each component once, a few in a file."""
    parts = [list(p) for p in (all_normalizers(), all_pre_tokenizers(), all_decoders(), all_models(), all_post_processors(), all_documents())]
    for i, model in enumerate(parts[3]):
        count = len(parts[3])
        document = {**EMPTY, "model": model, "post_processor": None, "added_tokens": parts[5][i]["added_tokens"],
                    "normalizer": sequence("normalizers", *parts[0][i::count]),
                    "pre_tokenizer": sequence("pretokenizers", *parts[1][i::count]),
                    "decoder": sequence("decoders", *parts[2][i::count])}
        with open(f"{folder}/components_{i}.json", "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))


def main():
    if sys.argv[1:2] == ["--seeds"]:
        write_seeds(sys.argv[2])
        return
    if sys.argv[1:] == ["--tables"]:
        print_tables()
        return
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(make(), file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
