"""Random pipelines of the `tokenizers` library: `tandem tokenize` gives the library's ids and texts."""
import json
import os
import random
import subprocess

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = ("the quick fox don't isn ' t , . ? Hello WORLD naïve ﬁ ½ ΣΊΣΥΦΟΣ İ ẞ 北京 ひらがな カタカナー 한국어 สวัสดี مُحَمَّد नमस्ते привет 😀 👨‍👩‍👧 🇩🇪 "
         "foo-bar_baz x=y+z $5 ▁a Ġ ## <0x41> <0xE2> </w> <s> <unk> <m> tok a\u0301\u0323 \x00 \x7f \ufffd \u00a0 \u3000 \u200b 123 ٣٤ Ⅷ").split(" ")
EXPRESSIONS = [r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|\s+", r"\w+|[^\w\s]+",
               r"\p{Han}+", r"\s", r"x*", r"[a-z&&[^aeiou]]", r"(?=[A-Z])", r"[[:punct:]]", r"\b", r" {2,}"]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def text(r):
    return "".join(r.choice([r.choice(WORDS), " ", "  ", "\n", chr(r.choice([r.randrange(32, 0x3000), r.randrange(0x10000, 0x11000)]))])
                   for _ in range(r.randrange(16)))


def pattern(r):
    return r.choice([Regex(r.choice(EXPRESSIONS)), r.choice(["a", " ", "-", "北"])])


def one_of(r, *makers):
    return r.choice(makers)()


def normalizer(r, depth=0):
    if depth < 2 and r.random() < 0.4:
        return normalizers.Sequence([normalizer(r, depth + 1) for _ in range(r.randrange(4))])
    flag = lambda: r.random() < 0.5
    return one_of(r, lambda: normalizers.BertNormalizer(flag(), flag(), r.choice([None, True, False]), flag()), normalizers.ByteLevel,
                  normalizers.Lowercase, normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Nmt,
                  normalizers.StripAccents, lambda: normalizers.Prepend("▁"), lambda: normalizers.Strip(flag(), flag()),
                  lambda: normalizers.Replace(pattern(r), r.choice(["", "▁", "xy"])))


def pre_tokenizer(r, depth=0):
    if depth < 2 and r.random() < 0.4:
        return pre_tokenizers.Sequence([pre_tokenizer(r, depth + 1) for _ in range(r.randrange(4))])
    flag = lambda: r.random() < 0.5
    return one_of(r, pre_tokenizers.BertPreTokenizer, lambda: pre_tokenizers.ByteLevel(flag(), use_regex=flag()),
                  lambda: pre_tokenizers.CharDelimiterSplit(r.choice(" a-")), lambda: pre_tokenizers.Digits(flag()),
                  lambda: pre_tokenizers.FixedLength(r.choice([1, 4])), lambda: pre_tokenizers.Punctuation(r.choice(BEHAVIORS)),
                  lambda: pre_tokenizers.Metaspace("▁", r.choice(["always", "first", "never"]), flag()), pre_tokenizers.UnicodeScripts,
                  lambda: pre_tokenizers.Split(pattern(r), r.choice(BEHAVIORS), flag()), pre_tokenizers.Whitespace,
                  pre_tokenizers.WhitespaceSplit)


def decoder(r, depth=0):
    if depth < 2 and r.random() < 0.5:
        return decoders.Sequence([decoder(r, depth + 1) for _ in range(r.randrange(5))])
    flag = lambda: r.random() < 0.5
    return one_of(r, lambda: decoders.BPEDecoder(r.choice(["</w>", "a"])), decoders.ByteFallback, decoders.ByteLevel, decoders.Fuse,
                  lambda: decoders.CTC("a", "|", flag()), lambda: decoders.Metaspace("▁", r.choice(["always", "never"])),
                  lambda: decoders.Replace(pattern(r), " "), lambda: decoders.Strip(r.choice(" a"), r.choice([0, 1]), 0),
                  lambda: decoders.WordPiece(r.choice(["##", "a"]), flag()))


def model(r):
    characters = [c for word in WORDS for c in word] + [chr(c) for c in range(33, 127)] + sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [word[a:a + r.randrange(1, 5)] for word in WORDS for a in range(len(word))]
    tokens = ["<unk>", "<s>"] + ["<0x%02X>" % b for b in range(0, 256, r.choice([1, 3]))] + [c for c in characters if r.random() < 0.8]
    kind = r.choice(["BPE", "Unigram", "WordPiece", "WordLevel"])
    if kind == "BPE":
        known = dict.fromkeys(tokens)
        merges = []
        for word in WORDS:
            for i in range(1, len(word)):
                if word[:i] in known and word[i] in known:
                    merges.append((word[:i], word[i]))
                    known.setdefault(word[:i + 1])
        return models.BPE({t: i for i, t in enumerate(known)}, list(dict.fromkeys(merges)), unk_token="<unk>", fuse_unk=r.random() < 0.5,
                          byte_fallback=r.random() < 0.5, ignore_merges=r.random() < 0.5)
    tokens = list(dict.fromkeys(tokens + pieces + (["##" + piece for piece in pieces] if kind == "WordPiece" else []) + WORDS))
    if kind == "Unigram":
        return models.Unigram([(t, -r.choice([1.5, 3.0, r.random() * 9])) for t in tokens], 0, r.random() < 0.5)
    vocabulary = {t: i for i, t in enumerate(t for t in tokens if t)}
    if kind == "WordLevel":
        return models.WordLevel(vocabulary, unk_token="<unk>")
    return models.WordPiece(vocabulary, unk_token="<unk>", max_input_chars_per_word=r.choice([5, 100]))


def pipeline(r):
    tokenizer = Tokenizer(model(r))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer(r), pre_tokenizer(r), decoder(r)
    for content in r.sample(["<m>", "tok", "北京", "foo", "ﬁ"], r.randrange(4)):
        flags = {key: r.random() < 0.3 for key in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        tokenizer.add_tokens([AddedToken(content, **flags)])
    end = ("<s>", tokenizer.token_to_id("<s>"))
    tokenizer.post_processor = r.choice([processors.BertProcessing(end, end), processors.RobertaProcessing(end, end),
                                         processors.TemplateProcessing("$A <s>", "$A <s> $B", [end])])
    return tokenizer


def answer(function):
    try:
        return function()
    except BaseException:  # the library's panics are no Exception
        return None


def is_certain(tokenizer):
    """Of added tokens that a normalizer makes one text, the library takes any, by the order of a hash table."""
    texts = [answer(lambda: tokenizer.normalizer.normalize_str(token.content))
             for token in tokenizer.get_added_tokens_decoder().values() if token.normalized]
    return len(set(texts)) == len(texts)


def test_random_pipelines_give_the_librarys_tokens(tmp_path):
    seed = int(os.environ.get("TANDEM_TEST_SEED", random.SystemRandom().randrange(10**9)))
    print("TANDEM_TEST_SEED", seed)
    for i in range(int(os.environ.get("TANDEM_TEST_PIPELINES", 30))):
        r = random.Random(seed + i)
        tokenizer = answer(lambda: pipeline(r))
        if tokenizer is None or not is_certain(tokenizer):
            continue
        folder = tmp_path / str(i)
        folder.mkdir()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        (folder / "config.json").write_text('{"model_type": "bart"}')
        texts = [text(r) for _ in range(40)]
        lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
        run = subprocess.run([os.environ["TANDEM_BINARY"], "tokenize", "--model", str(folder), "--jsonl"], input=lines.encode(),
                             capture_output=True, check=False)
        results = [json.loads(line) for line in run.stdout.splitlines()]
        assert len(results) == len(texts), run.stderr.decode()
        for given, result in zip(texts, results):
            ids = answer(lambda: tokenizer.encode(given).ids)
            if ids is None:
                continue
            assert result["ids"] == ids, (seed + i, given)
            for key, skip in (("decoded", False), ("decoded_skip_special", True)):
                decoded = answer(lambda: tokenizer.decode(ids, skip_special_tokens=skip))
                assert decoded is None or result[key] == decoded, (seed + i, given, key)
