// A sentence of a document with the markup in it, and where the markup goes in a translation.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// A part of a sentence, in the order of the source.
struct InlinePart {
  enum class Kind {
    kText,        // bytes of the source that are the text
    kCharacters,  // text that the source writes in another way: "&amp;", a line end for a blank
    kOpen,        // markup with an end: <b>
    kClose,       // the end
    kPoint,       // markup without one: <img>
    kLine,        // a line end that stays, in place of a blank
    kFixed,       // text that is not translated: code, a web address, a glossary's term
  };
  Kind kind = Kind::kText;
  size_t begin = 0, end = 0;            // bytes of the source
  size_t text_begin = 0, text_end = 0;  // bytes of the sentence's text
  int pair = -1;                        // that an opening and its closing share; -1: it has none
  // Instead of the source's bytes: markup as it is written once the text has changed; of a
  // glossary's term the target, as text.
  std::string written = {};
  bool is_term = false;  // of a glossary

  bool is_text() const { return kind == Kind::kText || kind == Kind::kCharacters; }
  bool is_markup() const { return !is_text() && kind != Kind::kFixed; }
};

// How a format writes text. first: nothing of the sentence is before it. before_markup: markup
// follows at once.
using EncodeText =
    std::function<std::string(std::string_view text, bool first, bool before_markup)>;

// Indices into the document's texts; -1: there is nothing to translate.
struct TextRequests {
  struct Run {  // between fixed texts; of kText and kCharacters alone
    size_t begin = 0, end = 0;
    int text = -1;
  };
  struct Content {
    int pair = 0;
    size_t begin = 0, end = 0;
    int text = -1;
  };
  int whole = -1;
  std::vector<Run> runs = {};          // where there are fixed texts
  std::vector<Content> contents = {};  // of the pairs
};

struct MarkedText {
  size_t begin = 0, end = 0;  // bytes of the source; the parts cover them
  size_t block = 0;           // number of the paragraph, heading, cell, …
  std::string text;           // as the model gets it: UTF-8, without line ends
  std::vector<InlinePart> parts;
  TextRequests requests;

  bool has_terms() const;
  // The sentence in the document's language of markup, with all of its markup. translations: of the
  // document's texts.
  std::string written(std::string_view source, const std::vector<std::string>& translations,
                      const EncodeText& encode) const;
};

}  // namespace tandem
