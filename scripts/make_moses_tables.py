#!/usr/bin/env python3
"""Writes text/moses/moses_tables.inc: Moses' classes of characters, which are those of an old Unicode, and its
abbreviations that keep their dot, of some languages.

    make_moses_tables.py > text/moses/moses_tables.inc        (needs sacremoses 0.2)
"""
from sacremoses.corpus import NonbreakingPrefixes, Perluniprops
from sacremoses.indic import NUKTAS, VIRAMAS

LANGUAGES = ("de", "en", "ru")  # others have lists, too; models that ask for them are not known


def ranges(characters):
    out = []
    for c in sorted(map(ord, set(characters))):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def wrapped(parts, indent):
    lines, line = [], indent
    for part in parts:
        if len(line) + len(part) > 99:
            lines.append(line.rstrip())
            line = indent
        line += part + " "
    return "\n".join(lines + [line.rstrip()])


def table(name, characters):
    parts = [f"{{{first:#x}, {last:#x}}}," for first, last in ranges(characters)]
    print(f"constexpr CodePointRange {name}[] = {{\n{wrapped(parts, '    ')}}};\n")


def abbreviations(language):
    words = [w.strip() for w in NonbreakingPrefixes().words(language)]
    numeric = [w.split(" ")[0] for w in words if " #NUMERIC_ONLY#" in w]
    for name, which in (("Always", [w for w in words if "#NUMERIC_ONLY#" not in w]), ("BeforeNumbers", numeric)):
        parts = [f'"{w}",' for w in dict.fromkeys(which)] or ['"",']
        print(f"constexpr std::string_view k{language.title()}{name}[] = {{\n{wrapped(parts, '    ')}}};\n")


def main():
    print("// Made by scripts/make_moses_tables.py of sacremoses (MIT), a port of Moses' tokenizer.\n")
    chars = {name: list(Perluniprops().chars(name)) for name in ("IsAlnum", "IsAlpha", "IsN", "IsSc", "IsLower")}
    joiners = list("".join(VIRAMAS) + "".join(NUKTAS))
    table("kAlnum", chars["IsAlnum"] + joiners)
    table("kAlpha", chars["IsAlpha"] + joiners)
    table("kPlainAlpha", chars["IsAlpha"])
    table("kNumber", chars["IsN"])
    table("kCurrency", chars["IsSc"])
    table("kLower", chars["IsLower"])
    for language in LANGUAGES:
        abbreviations(language)


if __name__ == "__main__":
    main()
