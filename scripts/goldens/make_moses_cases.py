#!/usr/bin/env python3
"""What HuggingFace's FSMT tokenizer makes of texts with Moses' tools: tests/data/tokenizers/moses.json.

    make_moses_cases.py > tests/data/tokenizers/moses.json      (needs transformers 5.24 and sacremoses 0.2)

Texts are made at random of what the rules look for. `words`: of the text, in its language; `text_of`: the text that a
list of pieces is decoded to.
"""
import json
import random

from transformers.models.fsmt.tokenization_fsmt import FSMTTokenizer

PARTS = """a B don't it's 'tis Jones' 1990's '90s x-ray a-b-c - -- ... .. . .' ." ". ," ", '' " ' ` `` ´ „ “ ” ‘ ’ « » – —
… ( ) [ ] { } < > & | $5 5% 5 % €3 1,000 1,a a,1 , ,, 3. No. No. 5 Art. pp. z.B. usw. etc. U.S. Mr. Dr. т.е. ул. ; : ? ! @ # / \\
\\t _ + = ~ ^ * 。 ， 、 ： ？ 《 》 （ ） ！ ； １ ９ 「 」 ．a ～ ━ 〈 【 】 ％ ñ é ß Ж ё ъ 中 文字 カ 한 क् ½ ² º nº\u00a05 \u00a0« x\u00a0» 5\u00a0000
5\u00a0% 5\u00a0cm a\u00a0: a\u00a0! ,\u00a0b \u200b \u00ad \u2003 \r \n DOTMULTI DOTDOTMULTI &amp; @-@ http://a.b/c-d e@f.gh ¿ ¡ :) 's n't""".split(" ")
PIECES = PARTS + ["@-@", "@-@", "&apos;s", "&apos;", "&quot;", "&quot;", "&amp;amp;", "&#91;", "&lt;", "&bar;", "word", "Haus", "дом", "s", "$"]


def moses():
    import sacremoses
    out = object.__new__(FSMTTokenizer)
    out.sm, out.cache_moses_punct_normalizer, out.cache_moses_tokenizer, out.cache_moses_detokenizer = sacremoses, {}, {}, {}
    return out


def main():
    r, tool, cases, decoded = random.Random(7), moses(), [], []
    for i in range(600):
        language = ("en", "de", "ru")[i % 3]
        text = "".join(r.choice(PARTS) + r.choice(["", " ", " ", " "]) for _ in range(r.randint(1, 14)))
        words = tool.moses_tokenize(tool.moses_pipeline(text, language), language)
        cases.append({"language": language, "text": text, "words": words})
        pieces = [w + r.choice(["</w>"] * 5 + [""]) for w in (r.choice(PIECES) for _ in range(r.randint(1, 14)))]
        joined = "".join(p.replace(" ", "").replace("</w>", " ") for p in pieces).split()
        decoded.append({"language": language, "pieces": pieces, "text_of": tool.moses_detokenize(joined, language)})
    print(json.dumps({"cases": cases, "decoded": decoded}, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
