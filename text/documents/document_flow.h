// Makes the sentences of a document out of what a format's parser finds in it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/documents/glossary.h"
#include "text/documents/marked_text.h"

namespace tandem {

struct FlowOptions {
  std::string language;                // of the text, as for sentences_of()
  bool sentences = true;               // each by itself; else each block
  const Glossary* glossary = nullptr;  // outlives the flow
};

// What a parser calls, in the order of the source. Bytes that it never names are markup between
// blocks, or within a block a point of their own: no byte is lost.
class DocumentFlow {
 public:
  DocumentFlow(std::string_view source, FlowOptions options)
      : source_(source), options_(std::move(options)) {}

  // Text as the source writes it. Each run of white space is a blank.
  void text(size_t begin, size_t end);
  // Text that the source writes in another way.
  void characters(size_t begin, size_t end, std::string_view text);
  // Markup within a sentence. open() returns the number that close() takes; -1: it closes nothing.
  // written: what it becomes in a sentence that has been translated; empty: it stays as it is.
  int open(size_t begin, size_t end);
  void close(size_t begin, size_t end, int pair, std::string written = {});
  void point(size_t begin, size_t end);
  // A line end that stays where words allow it.
  void line(size_t begin, size_t end);
  // What is not translated; shown: its text, for the model.
  void fixed(size_t begin, size_t end, std::string_view shown);
  // The end of a block, and of a sentence.
  void boundary();

  std::string_view source() const { return source_; }
  bool in_block() const { return !parts_.empty(); }
  // All sentences, once the source has ended, and the texts that they need.
  std::vector<MarkedText> take_sentences() { return std::move(sentences_); }
  std::vector<std::string> take_texts() { return std::move(texts_); }

 private:
  void add(InlinePart::Kind kind, size_t begin, size_t end, std::string_view text);
  void fill_gap(size_t until);
  void protect();
  void add_sentence(size_t begin, size_t end);
  void ask(MarkedText& sentence);
  int text_number(std::string_view text);

  const std::string_view source_;
  const FlowOptions options_;
  // The block under way.
  std::string text_;
  std::vector<InlinePart> parts_;
  size_t next_part_ = 0;  // of the block; those before it belong to sentences
  size_t block_ = 0;
  int pairs_ = 0;

  std::vector<MarkedText> sentences_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, int> numbers_;  // of the texts
};

}  // namespace tandem
