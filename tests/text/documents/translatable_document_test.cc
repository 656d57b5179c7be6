// Documents whose texts are translated by small functions here: what changes, and what does not.
#include "text/documents/translatable_document.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/documents/readers/html_tokens.h"

namespace tandem {
namespace {

using Format = DocumentFormat;
using Translate = std::function<std::string(const std::string&)>;

std::string same(const std::string& text) { return text; }
std::string upper(const std::string& text) {
  std::string out = text;
  for (char& c : out) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return out;
}
std::string reversed(const std::string& text) {
  std::string out;
  for (size_t end = text.size(); end > 0;) {
    const size_t blank = text.find_last_of(' ', end - 1);
    const size_t begin = blank == text.npos ? 0 : blank + 1;
    out += (out.empty() ? "" : " ") + text.substr(begin, end - begin);
    end = blank == text.npos ? 0 : blank;
  }
  return out;
}
// A model that answers each text with another text of as many words.
Translate table(std::vector<std::pair<std::string, std::string>> entries) {
  return [=](const std::string& text) {
    for (const auto& [from, to] : entries)
      if (from == text) return to;
    return "?" + text + "?";
  };
}

std::string translated(Format format, const std::string& source, const Translate& translate,
                       const DocumentRules& rules = {"en"}) {
  const TranslatableDocument document(format, source, rules, "file");
  std::vector<std::string> translations;
  for (const std::string& text : document.texts()) translations.push_back(translate(text));
  return document.with(translations);
}
std::vector<std::string> texts(Format format, const std::string& source,
                               const DocumentRules& rules = {"en"}) {
  return TranslatableDocument(format, source, rules, "file").texts();
}
using Texts = std::vector<std::string>;

TEST(TranslatableDocument, HtmlKeepsItsTags) {
  const std::string source =
      "<!DOCTYPE html>\n<html lang=en><head><title>A &amp; B title</title><style>p{}</style>"
      "<script>if (a<b) f('</p>')</script></head>\n<body><!-- note --><h1 class='x'>The\n heading"
      "</h1><p title=\"stays\">One line<br/>next line<ul><li>item one<li>item two</ul><pre>code"
      " here</pre></body></html>\n";
  EXPECT_EQ(translated(Format::kHtml, source, same), source);
  EXPECT_EQ(texts(Format::kHtml, source),
            Texts({"A & B title", "The heading", "One line", "next line", "item one", "item two"}));
  std::string expected = source;
  for (const auto& [from, to] : {std::pair("A &amp; B title", "A &amp; B TITLE"),
                                 {"The\n heading", "THE HEADING"},
                                 {"One line", "ONE LINE"},
                                 {"next line", "NEXT LINE"},
                                 {"item one", "ITEM ONE"},
                                 {"item two", "ITEM TWO"}})
    expected.replace(expected.find(from), std::string(from).size(), to);
  EXPECT_EQ(translated(Format::kHtml, source, upper), expected);
}

TEST(TranslatableDocument, TagsGoAroundTheirTranslations) {
  const Translate german = table({{"See the blue house today.", "Sieh heute das blaue Haus."},
                                  {"blue house", "blaue Haus"},
                                  {"today", "heute"}});
  EXPECT_EQ(translated(Format::kHtml, "<p>See the <a href='x'><b>blue house</b></a> <i>today</i>.",
                       german),
            "<p>Sieh <i>heute</i> das <a href='x'><b>blaue Haus</b></a>.");
  // What is not found goes where it stood in proportion, around whole words.
  EXPECT_EQ(translated(Format::kHtml, "<p>one two <b>three</b> four",
                       table({{"one two three four", "eins zwei drei vier"}})),
            "<p>eins zwei <b>drei</b> vier");
  EXPECT_EQ(translated(Format::kHtml, "<p>one <b>two</b> three", table({{"one two three", "x"}})),
            "<p><b>x</b>");
  // Nothing that the model leaves out is lost.
  EXPECT_EQ(translated(Format::kHtml, "<p>one <b>two</b> <img src=i> three",
                       [](const std::string&) { return ""; }),
            "<p>one <b>two</b> <img src=i> three");
}

TEST(TranslatableDocument, CodeStays) {
  const std::string source = "<p>Run <code>m&lt;x</code> now, please.";
  EXPECT_EQ(texts(Format::kHtml, source), Texts({"Run m<x now, please.", "Run", "now, please."}));
  // The model left it as it was: the translation of the whole sentence.
  EXPECT_EQ(translated(Format::kHtml, source, reversed), "<p>please. now, <code>m&lt;x</code> Run");
  // It did not: the translations of what is around it.
  EXPECT_EQ(translated(Format::kHtml, source, upper), "<p>RUN <code>m&lt;x</code> NOW, PLEASE.");
  for (const char* one : {"<p translate=no>words</p>", "<div class='a notranslate'>words</div>",
                          "<kbd>words</kbd>", "<p>12 &mdash; 34</p>", "<p>https://a.b/words</p>"})
    EXPECT_EQ(texts(Format::kHtml, one), Texts()) << one;
  EXPECT_EQ(texts(Format::kHtml, "<p translate=no>no<p>yes"), Texts({"yes"}));
  EXPECT_EQ(texts(Format::kHtml, "<div><span translate=no>no</div>yes"), Texts({"yes"}));
}

TEST(TranslatableDocument, TextThatIsMarkupIsWrittenSo) {
  EXPECT_EQ(translated(Format::kHtml, "<p>a text</p>", [](auto&) { return "1 < 2 & <b>"; }),
            "<p>1 &lt; 2 &amp; &lt;b&gt;</p>");
  EXPECT_EQ(
      translated(Format::kMarkdown, "a text\n", [](auto&) { return "# *x* [y] _z_ a_b `c`"; }),
      "\\# \\*x\\* \\[y\\] \\_z\\_ a_b \\`c\\`\n");
  EXPECT_EQ(translated(Format::kMarkdown, "a text\n", [](auto&) { return "1. x"; }), "1\\. x\n");
  EXPECT_EQ(translated(Format::kSrt, "1\n00:00:01,000 --> 00:00:02,000\na text\n",
                       [](auto&) { return "x\n\n2 --> y"; }),
            "1\n00:00:01,000 --> 00:00:02,000\nx 2 -> y\n");
}

TEST(TranslatableDocument, MarkdownKeepsItsMarks) {
  const std::string source =
      "---\ntitle: stays\n---\n# A *nice* heading\n\nThis is **bold** in a\nsentence with `code`."
      " See [the docs](http://x.y/z \"a (b)\"), [Ref].\n> A quote\n> goes on.\n\n* Item \\*one\\*\n"
      "  1. Deep *item*\n\n| Head | **B** |\n|---|---|\n| cell | `x|y` z |\n\n```\ncode\n```\n"
      "<div class=\"x\">\n<p>In <b>html</b></p>\n</div>\n\n![alt text](i.png)\n\n[Ref]: http://r\n";
  EXPECT_EQ(translated(Format::kMarkdown, source, same), source);
  const std::string out = translated(Format::kMarkdown, source, upper);
  EXPECT_EQ(
      out,
      "---\ntitle: stays\n---\n# A *NICE* HEADING\n\nTHIS IS **BOLD** IN A SENTENCE WITH"
      " `code`. SEE [THE DOCS](http://x.y/z \"a (b)\"), [REF][Ref].\n> A QUOTE GOES ON.\n\n"
      "* ITEM \\*ONE\\*\n  1. DEEP *ITEM*\n\n| HEAD | **B** |\n|---|---|\n| CELL | `x|y` Z |\n"
      "\n```\ncode\n```\n<div class=\"x\">\n<p>IN <b>HTML</b></p>\n</div>\n\n"
      "![alt text](i.png)\n\n[Ref]: http://r\n");
}

TEST(TranslatableDocument, XmlKeepsItsElements) {
  const std::string source =
      "<?xml version=\"1.0\"?>\n<doc><t>The title &amp; more</t><p>Some <b>bold</b> text &foo;"
      " here<br/></p><p translate=\"no\">no</p><d><![CDATA[<raw>]]></d></doc>";
  EXPECT_EQ(translated(Format::kXml, source, same), source);
  EXPECT_EQ(
      translated(Format::kXml, source, upper),
      "<?xml version=\"1.0\"?>\n<doc><t>THE TITLE &amp; MORE</t><p>SOME <b>BOLD</b> TEXT &foo;"
      " HERE<br/></p><p translate=\"no\">no</p><d><![CDATA[<raw>]]></d></doc>")
      << "an entity that nobody declares stands where it stood";
  DocumentRules rules{"en"};
  rules.tags.ignored = {"x"};
  rules.tags.splitting = {"s"};
  EXPECT_EQ(texts(Format::kXml, "a text <x>not this</x> and <s>this</s> too", rules),
            Texts({"a text not this and", "a text", "and", "this", "too"}));
  for (const char* bad : {"<a>text</b>", "<a>", "a & b", "</tandem-fragment>"})
    EXPECT_THROW(texts(Format::kXml, bad), InputError) << bad;
  EXPECT_THROW(texts(Format::kXml, "<?xml version='1.0' encoding='latin1'?><a>b</a>"), InputError);
}

TEST(TranslatableDocument, SubtitlesStayInTime) {
  const std::string srt =
      "1\r\n00:00:01,000 --> 00:00:03,000\r\n<i>Hello there,</i>\r\nmy friend.\r\n\r\n2\r\n"
      "00:00:04,000 --> 00:00:05,000\r\n- How are you?\r\n- Fine.\r\n";
  EXPECT_EQ(translated(Format::kSrt, srt, same), srt);
  EXPECT_EQ(translated(Format::kSrt, srt, upper),
            "1\r\n00:00:01,000 --> 00:00:03,000\r\n<i>HELLO THERE,</i>\r\nMY FRIEND.\r\n\r\n2\r\n"
            "00:00:04,000 --> 00:00:05,000\r\n- HOW ARE YOU?\r\n- FINE.\r\n");
  const std::string vtt =
      "WEBVTT words\n\nSTYLE\n::cue { color: red }\n\nNOTE a note\n\nname\n"
      "00:01.000 --> 00:04.000 align:start\n<v Fred>Hi &amp; &lt;bye&gt;\n";
  EXPECT_EQ(texts(Format::kVtt, vtt), Texts({"Hi & <bye>"}));
  EXPECT_EQ(translated(Format::kVtt, vtt, upper),
            vtt.substr(0, vtt.find("Hi")) + "HI &amp; &lt;BYE&gt;\n");
}

TEST(TranslatableDocument, EachSentenceOnce) {
  const std::string source = "<p>One is here. Two is <b>there. Three</b> is gone.</p>";
  EXPECT_EQ(texts(Format::kHtml, source),
            Texts({"One is here.", "Two is there.", "Three is gone."}));
  EXPECT_EQ(translated(Format::kHtml, source, upper),
            "<p>ONE IS HERE. TWO IS <b>THERE. THREE</b> IS GONE.</p>");
  DocumentRules whole{"en"};
  whole.sentences = false;
  EXPECT_EQ(texts(Format::kHtml, source, whole).front(),
            "One is here. Two is there. Three is gone.");
  EXPECT_EQ(TranslatableDocument(Format::kHtml, source + "<p>Four", {"en"}, "f").plain_text(),
            "One is here. Two is there. Three is gone.\nFour");
}

TEST(TranslatableDocument, Glossary) {
  const Glossary glossary({{"cloud", "Wolke"}, {"cloud computer", "Wolkenrechner"}}, "g");
  DocumentRules rules{"en"};
  rules.glossary = &glossary;
  const std::string source = "The cloud computer and the cloud.\n  cloudy days\n";
  EXPECT_EQ(texts(Format::kText, source, rules).front(), "The Wolkenrechner and the Wolke.");
  EXPECT_EQ(translated(Format::kText, source, same, rules),
            "The Wolkenrechner and the Wolke.\n  cloudy days\n");
  // A model that changes it: the terms are there all the same, and all other words.
  EXPECT_EQ(translated(Format::kText, source, upper, rules),
            "THE Wolkenrechner AND THE Wolke.\n  CLOUDY DAYS\n");
  EXPECT_EQ(translated(Format::kHtml, "<h1>cloud</h1><p>a <b>cloud</b> <i>x</i>", upper, rules),
            "<h1>Wolke</h1><p>A <b>Wolke</b> <i>X</i>");
}

TEST(TranslatableDocument, NoUtf8IsRefused) {
  for (const Format format : {Format::kHtml, Format::kMarkdown, Format::kXml, Format::kSrt})
    EXPECT_THROW(texts(format, "a \xff b"), InputError);
}

// Documents put together at random: same translations give the bytes, others keep the markup.
TEST(TranslatableDocument, RandomPieces) {
  const std::vector<std::string> pieces = {"word ",
                                           "Two words. ",
                                           "<b>",
                                           "</b>",
                                           "<p>",
                                           "</p>",
                                           "<a href=x>",
                                           "</a>",
                                           "&amp;",
                                           "&x",
                                           "<",
                                           "<!--",
                                           "-->",
                                           "<code>",
                                           "</code>",
                                           "<script>",
                                           "</script>",
                                           "\n",
                                           "  ",
                                           "<img src=a>",
                                           "`",
                                           "**",
                                           "*",
                                           "_",
                                           "[",
                                           "](u)",
                                           "![",
                                           "> ",
                                           "# ",
                                           "- ",
                                           "1. ",
                                           "|",
                                           "\n|---|---|\n",
                                           "\\",
                                           "~~",
                                           "\n\n",
                                           "00:01 --> 00:02\n",
                                           "\xC3\xA4",
                                           "\xE4\xB8\xAD",
                                           "https://a.b/c ",
                                           "<pre translate=no>"};
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string source;
    for (size_t n = random() % 30; n > 0; --n) source += pieces[random() % pieces.size()];
    for (const Format format : {Format::kText, Format::kMarkdown, Format::kHtml, Format::kVtt}) {
      ASSERT_EQ(translated(format, source, same), source) << round;
      const std::string out = translated(format, source, reversed);
      if (format != Format::kHtml) continue;
      const auto tags = [](const std::string& html) {
        std::vector<std::string> found;
        HtmlTokens tokens(html);
        while (const auto token = tokens.next())
          if (token->kind != HtmlToken::Kind::kText)
            found.push_back(html.substr(token->begin, token->end - token->begin));
        std::sort(found.begin(), found.end());
        return found;
      };
      ASSERT_EQ(tags(out), tags(source)) << source << "\n" << out;
    }
  }
}

// What would take quadratic time elsewhere.
TEST(TranslatableDocument, LongInputsTakeNoLongTime) {
  const auto begun = std::chrono::steady_clock::now();
  const auto repeated = [](const std::string& text) {
    std::string out;
    while (out.size() < 200000) out += text;
    return out;
  };
  for (const char* piece :
       {"<div>", "<b>x ", "<!--", "<!---->", "(", "&", "<a b=", "</b>", "x<b>y</b> ", "<code>",
        "<p translate=no>", "</x", "[", "*a ", "> ", "`", "- x\n", "a@b"})
    for (const Format format : {Format::kText, Format::kMarkdown, Format::kHtml, Format::kVtt}) {
      const std::string source = repeated(piece);
      EXPECT_EQ(translated(format, source, same), source);
      translated(format, source, reversed);
    }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
}

}  // namespace
}  // namespace tandem
