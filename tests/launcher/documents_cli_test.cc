// tandem summarize and tandem translate: texts, files, folders and patterns in, a text for each
// out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/files/files.h"
#include "tests/support/processes/command_line.h"

namespace tandem::documents_cli_test {
namespace {

using test::read_file;
using test::TempDir;
using testing::ProcessResult;
using testing::tandem;
using Words = std::vector<std::string>;

const std::string kDemo = TANDEM_SOURCE_DIR "/examples/demo-model";
const std::string kT5 = TANDEM_SOURCE_DIR "/tests/data/goldens/t5-tiny";
const std::string kMbart50 = TANDEM_SOURCE_DIR "/tests/data/goldens/mbart50-tiny";

ProcessResult run(Words words, const std::string& input = "") { return tandem(words, input); }

TEST(DocumentsCli, ATextThatFitsIsWhatGenerateMakes) {
  const std::string text = "A tool to find duplicate files on a disk. It compares sizes.";
  const ProcessResult generated = run({"generate", kDemo, text});
  const ProcessResult summary = run({"summarize", kDemo, text});
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_EQ(summary.out, generated.out);
  EXPECT_EQ(run({"summarize", kDemo, "-"}, text + "\n").out, generated.out);
}

TEST(DocumentsCli, ALongTextIsASummaryOfSummaries) {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "Package number " + std::to_string(i) + " finds files. ";
  EXPECT_NE(run({"generate", kDemo, text}).status, 0);
  const ProcessResult r = run({"summarize", kDemo, text});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("a summary of the summaries of its"), std::string::npos) << r.err;
  EXPECT_LT(r.out.size(), text.size() / 4);
  EXPECT_FALSE(r.out.empty());
}

TEST(DocumentsCli, FilesFoldersAndPatterns) {
  TempDir dir;
  dir.write("a.txt", "  One text is here.\n\n- And a line.\n");
  dir.write("b.md", "Another text.\n");
  dir.write("c.dat", "Not of a folder.");
  const std::string folder = dir.path().string();
  const Words base{"translate", kMbart50,    "--from",           "en", "--to", "German",
                   "--split",   "sentences", "--max-new-tokens", "8"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run(more);
  };
  const ProcessResult a = with({folder + "/a.txt"}), b = with({folder + "/b.md"});
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_TRUE(a.out.starts_with("  ")) << "the layout stays";
  EXPECT_NE(a.out.find("\n\n"), std::string::npos);
  EXPECT_EQ(with({folder}).out, a.out + b.out);
  EXPECT_EQ(with({folder + "/*.txt", folder + "/b.md"}).out, a.out + b.out);

  const ProcessResult r = with({folder, "--output-dir", folder + "/out"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(read_file(dir.path() / "out/a.German.txt"), a.out);
  EXPECT_EQ(read_file(dir.path() / "out/b.German.md"), b.out);
}

// Whatever the model says: the markup stays, and every text is asked for once.
TEST(DocumentsCli, FormatsKeepTheirMarkup) {
  TempDir dir;
  dir.write("a.html", "<html><h1 id=x>A heading</h1><p>Some <b>bold</b> text.<pre>code</pre>\n");
  dir.write("b.md", "# A heading\n\n- one `code` item\n\n```\ncode\n```\n");
  dir.write("c.srt", "1\n00:00:01,000 --> 00:00:02,000\nHello there.\n");
  dir.write("d.xml", "<a><b x='1'/></a>");
  dir.write("terms.tsv", "heading\tÜberschrift\n");
  const std::string folder = dir.path().string();
  const ProcessResult r =
      run({"translate", kMbart50, "--from", "en", "--to", "de", folder, "--output-dir",
           folder + "/out", "--max-new-tokens", "6", "--glossary", folder + "/terms.tsv"});
  EXPECT_EQ(r.status, 0) << r.err;
  const std::string html = read_file(dir.path() / "out/a.de.html");
  for (const char* part :
       {"<html><h1 id=x>", "Überschrift</h1><p>", "<b>", "</b>", "<pre>code</pre>\n"})
    EXPECT_NE(html.find(part), std::string::npos) << part << " in " << html;
  const std::string md = read_file(dir.path() / "out/b.de.md");
  EXPECT_TRUE(md.starts_with("# ")) << md;
  EXPECT_TRUE(md.ends_with("\n\n```\ncode\n```\n")) << md;
  EXPECT_NE(md.find("\n\n- "), std::string::npos) << md;
  EXPECT_NE(md.find("`code`"), std::string::npos) << md;
  EXPECT_TRUE(
      read_file(dir.path() / "out/c.de.srt").starts_with("1\n00:00:01,000 --> 00:00:02,000\n"));
  EXPECT_EQ(read_file(dir.path() / "out/d.de.xml"), "<a><b x='1'/></a>");
  // By standard input, and as what it is not.
  EXPECT_TRUE(run({"translate", kMbart50, "--to", "de", "--format", "html", "-"}, "<p>one</p>")
                  .out.ends_with("</p>\n"));
}

TEST(DocumentsCli, TheTextOfAPageIsSummarised) {
  TempDir dir;
  dir.write("a.html",
            "<style>p{}</style><p>A tool to find <i>duplicate</i> files on a disk.</p>"
            "<script>x</script><p>It compares sizes.");
  const std::string text = "A tool to find duplicate files on a disk.\nIt compares sizes.";
  const ProcessResult page = run({"summarize", kDemo, (dir.path() / "a.html").string()});
  EXPECT_EQ(page.status, 0) << page.err;
  EXPECT_EQ(page.out, run({"summarize", kDemo, text}).out);
}

TEST(DocumentsCli, TasksOfT5AreChosen) {
  const std::string text = "The weather is fine today. We are going out.";
  const Words tail{"--max-new-tokens", "6", "--min-length", "0", "--num-beams", "1"};
  Words by_hand{"generate", kT5, "--task", "summarization", text}, chosen{"summarize", kT5, text};
  by_hand.insert(by_hand.end(), tail.begin(), tail.end());
  chosen.insert(chosen.end(), tail.begin(), tail.end());
  const ProcessResult expected = run(by_hand), got = run(chosen);
  EXPECT_EQ(expected.status, 0) << expected.err;
  EXPECT_EQ(got.out, expected.out);
}

// The flag is named, and what the model has: before the engine starts, once for all texts.
TEST(DocumentsCli, ATargetOfAModelWithoutLanguages) {
  const ProcessResult none = run({"translate", kDemo, "One.", "Two.", "--to", "de"});
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err,
            "tandem: --to: the model has no languages to choose from; leave out --to if it "
            "translates all the same\n");
  TempDir dir;
  const std::filesystem::path t5 = dir.path() / "t5";
  std::filesystem::copy(kT5, t5);
  nlohmann::json config = json_from<nlohmann::json>(read_file(t5 / "config.json"));
  config["task_specific_params"] = {{"summarization", {{"prefix", "summarize: "}}},
                                    {"translation_en_to_de", {{"prefix", "to German: "}}}};
  std::filesystem::remove(t5 / "config.json");
  dir.write("t5/config.json", config.dump());
  const ProcessResult other = run({"translate", t5.string(), "One.", "--to", "Italian"});
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(other.err,
            "tandem: --to: the model translates these pairs only: translation_en_to_de\n");
  const ProcessResult pair =
      run({"translate", t5.string(), "One.", "--to", "German", "--max-new-tokens", "4"});
  EXPECT_EQ(pair.status, 0) << pair.err;
}

// A word is a text where it is no file and does not look like one.
TEST(DocumentsCli, AWordMayBeAText) {
  const Words base{"translate", kMbart50, "--to", "German", "--max-new-tokens", "8"};
  const auto with = [&](const std::string& text) {
    Words words = base;
    words.push_back(text);
    return run(words);
  };
  const ProcessResult word = with("Hello."), piped = run(base, "Hello.\n");
  EXPECT_EQ(word.status, 0) << word.err;
  EXPECT_NE(word.err.find("\"Hello.\" is a text"), std::string::npos) << word.err;
  EXPECT_FALSE(word.out.empty());
  EXPECT_EQ(piped.out, word.out) << piped.err;
}

// As after a pipe of a shell, without "-".
TEST(DocumentsCli, StandardInputIsReadWhereSomethingIsPipedIn) {
  const std::string text = "A tool to find duplicate files on a disk.";
  EXPECT_EQ(run({"summarize", kDemo}, text).out, run({"summarize", kDemo, text}).out);
  EXPECT_EQ(run({"generate", kDemo}, text).out, run({"generate", kDemo, text}).out);
  for (const char* command : {"summarize", "generate"}) {
    const ProcessResult nothing = run({command, kDemo});
    EXPECT_EQ(nothing.status, 2);
    EXPECT_NE(nothing.err.find("TEXT: is missing"), std::string::npos) << nothing.err;
  }
}

TEST(DocumentsCli, FilesThatAreNoTextsAreNamed) {
  TempDir dir;
  const std::pair<std::filesystem::path, const char*> cases[] = {
      {dir.write("a.docx", "PK\x03\x04\x14"), "a.docx: is a document of an office program"},
      {dir.write("a.doc", "\xd0\xcf\x11\xe0"), "a.doc: is a document of an office program"},
      {dir.write("a.pdf", "%PDF-1.7\n\xff"), "a.pdf: is a PDF file"},
      {dir.write("a.rtf", "{\\rtf1 x}"), "a.rtf: is an RTF file"},
      {dir.write("latin.txt", "caf\xe9"),
       "latin.txt: is not a text in UTF-8: the byte at offset 3"},
      {dir.write("none.txt", "\n"), "none.txt: prompt: is empty"}};
  for (const auto& [file, words] : cases) {
    const ProcessResult r = run({"summarize", kDemo, file.string()});
    EXPECT_NE(r.status, 0) << file;
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
}

TEST(DocumentsCli, TheLanguageOfEachDocumentIsFoundOut) {
  TempDir dir;
  const std::string de = "Das Wetter ist heute schön, und wir gehen in den Park.";
  const std::string fr = "Le marché ouvre à sept heures le samedi matin, et nous y allons.";
  dir.write("a.txt", de + "\n");
  dir.write("b.html", "<p>" + fr + "</p>\n");
  const std::string a = (dir.path() / "a.txt").string(), b = (dir.path() / "b.html").string();
  const auto translated = [](const std::string& what, const std::string& from) {
    return run(
        {"translate", kMbart50, what, "--to", "es", "--from", from, "--max-new-tokens", "8"});
  };
  EXPECT_EQ(translated(a, "auto").out, translated(a, "de").out);
  EXPECT_EQ(translated(b, "auto").out, translated(b, "fr").out);
  EXPECT_NE(translated(a, "auto").out, translated(a, "fr").out) << "the language counts";
  const ProcessResult both =
      run({"translate", kMbart50, a, b, "--to", "es", "--from", "auto", "--max-new-tokens", "8"});
  EXPECT_EQ(both.out, translated(a, "de").out + translated(b, "fr").out) << both.err;
  const ProcessResult unknown = translated("12 34 56", "auto");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("--from: TEXT: its language is not recognised"), std::string::npos)
      << unknown.err;
}

// Every sentence fails for the same reason, which is said once.
TEST(DocumentsCli, ADocumentFailsWithOneError) {
  TempDir dir;
  dir.write("a.md", "# One\n\nTwo is here. Three is here.\n\n- four\n- five\n");
  const std::string file = (dir.path() / "a.md").string();
  const ProcessResult r = run({"translate", kMbart50, file, "--to", "xx"});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "");
  const auto count = [&](const std::string& words) {
    int found = 0;
    for (size_t at = 0; (at = r.err.find(words, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("tgt_lang"), 1) << r.err;
  EXPECT_EQ(count("a.md: is not written, because a part of it has failed"), 1) << r.err;
}

// A model of many languages would answer in any of them.
TEST(DocumentsCli, AModelOfManyLanguagesNeedsTheTarget) {
  const ProcessResult r = run({"translate", kMbart50, "A text."});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--to: is missing: the model translates into 52 languages"),
            std::string::npos)
      << r.err;
  const ProcessResult forced = run(
      {"translate", kMbart50, "A text.", "--forced-bos-token-id", "2", "--max-new-tokens", "3"});
  EXPECT_EQ(forced.status, 0) << forced.err;
}

TEST(DocumentsCli, Errors) {
  TempDir dir;
  const std::string empty = dir.path().string();
  const std::pair<Words, const char*> cases[] = {
      {{"summarize", kDemo}, "TEXT"},
      {{"summarize", "a text, but no model"}, "the first argument, \"a text, but no model\", is"},
      {{"summarize", kDemo, "nothing.txt"}, "nothing.txt\": there is no such file"},
      {{"summarize", kDemo, "no/folder"}, "no/folder\": there is no such file"},
      {{"summarize", kDemo, ""}, "is empty"},
      {{"summarize", kDemo, "https://example.com/a.html"}, "is an address: download"},
      {{"transcribe", kDemo, "https://example.com/a.mp3"}, "is an address: download"},
      {{"summarize", kDemo, empty}, "no file of a known ending"},
      {{"summarize", kDemo, "a text", "--format", "pdf"}, "--format"},
      {{"translate", kMbart50, "a text", "--to", "de", "--glossary", "x.pdf"}, "x.pdf"},
      {{"translate", kMbart50, "a text", "--to", "de", "--glossary", "no.tsv"},
       "--glossary: \"no.tsv\": No such file"},
      {{"translate", kMbart50, "<a> text", "--to", "de", "--format", "xml"}, "not well-formed"},
      {{"summarize", kDemo, empty + "/*.txt"}, "no file matches"},
      {{"summarize", kDemo, "a text", "--output-dir", empty}, "--output-dir"},
      {{"translate", kMbart50, "a text", "--to", "xx"}, "tgt_lang"},
      {{"translate", kMbart50, "a text", "--to", "de", "--split", "words"}, "split"},
      {{"summarize", kDemo, "-", "-"}, "standard input"}};
  for (const auto& [words, part] : cases) {
    const ProcessResult r = run(words);
    EXPECT_NE(r.status, 0) << words.back();
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace tandem::documents_cli_test
