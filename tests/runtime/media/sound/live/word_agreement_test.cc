#include "runtime/media/sound/live/word_agreement.h"

#include <gtest/gtest.h>

namespace tandem::word_agreement_test {
namespace {

std::vector<LiveWord> words(const std::string& text) {
  std::vector<LiveWord> out;
  append_words(text, 0, out);
  return out;
}

std::string shown(const std::string& text) {
  std::string out, whole;
  for (const LiveWord& word : words(text)) {
    out += "[" + word.text + "|" + word.tail + "|" + word.key + "]";
    whole += word.text + word.tail;
  }
  EXPECT_EQ(whole, text) << "nothing is lost";
  return out;
}

TEST(Words, AreSplit) {
  EXPECT_EQ(shown(" Hello, there."), "[ Hello|,|hello][ there|.|there]");
  EXPECT_EQ(shown("it's 3.5 (twenty-one)"), "[it's||it's][ 3.5||3.5][ (twenty-one|)|twenty-one]");
  EXPECT_EQ(shown(" a - b …"), "[ a| -|a][ b| …|b]");
  EXPECT_EQ(shown(" 你好,世界。"), "[ 你||你][好|,|好][世||世][界|。|界]");
  EXPECT_EQ(shown("日本はABC。"), "[日||日][本||本][は||は][ABC|。|abc]");
  EXPECT_EQ(shown(" ÄÖ"), "[ ÄÖ||äö]");
  EXPECT_EQ(shown("..."), "[...||]");
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(words("a\xf0 b").size(), 2u) << "half a character";
}

TEST(WordAgreement, SettlesWhatTwoSay) {
  WordAgreement a;
  EXPECT_EQ(a.take(words(" And so my")), "");
  EXPECT_EQ(a.partial(), " And so my");
  EXPECT_EQ(a.take(words(" And so, my fellow.")), " And so, my");
  EXPECT_EQ(a.partial(), " fellow.");
  // The comma in front of what follows is the newest hypothesis'.
  EXPECT_EQ(a.take(words(" And so my! Fellow Americans")), "! Fellow");
  EXPECT_EQ(a.partial(), " Americans");
  a.check_integrity();
  EXPECT_EQ(a.finish(), " Americans");
  a.check_integrity();
  EXPECT_EQ(a.take(words(" Ask")), "");
  EXPECT_EQ(a.finish(), " Ask");
}

// What is settled stays, even where later hypotheses have it otherwise.
TEST(WordAgreement, TakesNothingBack) {
  WordAgreement a;
  a.take(words(" one two three four"));
  EXPECT_EQ(a.take(words(" one two three five")), " one two three");
  EXPECT_EQ(a.take(words(" won two three four five")), "");
  EXPECT_EQ(a.take(words(" one too three four five")), " four five");
  EXPECT_EQ(a.take(words("")), "");
  EXPECT_EQ(a.take(words(" one two three four five six")), "");
  EXPECT_EQ(a.take(words(" two three four five six seven")), " six");
  a.check_integrity();
}

TEST(WordAgreement, IsCutBehindASegment) {
  WordAgreement a;
  std::vector<LiveWord> heard;
  append_words(" One two.", 0, heard);
  append_words(" Three four", 1, heard);
  EXPECT_EQ(a.take(heard), "");
  EXPECT_EQ(a.take(heard, 2), " One two. Three four");
  EXPECT_EQ(a.text_to(2), " One two.");
  EXPECT_EQ(a.cut(0), "");
  EXPECT_EQ(a.take(words(" Three four five")), "");
  EXPECT_EQ(a.take(words(" Three four five.")), " five");
  EXPECT_EQ(a.cut(0), ".");
  EXPECT_EQ(a.partial(), "");
  a.check_integrity();
  EXPECT_EQ(a.take(words(" Six")), "");
  EXPECT_EQ(a.finish(), " Six");
}

}  // namespace
}  // namespace tandem::word_agreement_test
