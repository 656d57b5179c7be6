// Places against HuggingFace's, and their bounds.
#include "text/answers/located_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/support/goldens/answer_cases.h"

namespace tandem::located_text_test {
namespace {

TEST(LocatedText, IsHuggingFaces) {
  for (const auto& c : test::answer_cases("located")) {
    LocatedOptions options;
    options.width = c.at("width");
    options.height = c.at("height");
    options.area_threshold = c.at("area");
    for (const std::string phrase : c.at("banned")) options.banned_phrases.push_back(phrase);
    EXPECT_EQ(located_text(c.at("text").get<std::string>(),
                           static_cast<LocatedForm>(c.at("form").get<int>()), options)
                  .dump(),
              c.at("answer").dump())
        << c.at("text");
  }
}

TEST(LocatedText, PlacesArePixels) {
  const LocatedOptions options{640, 480};
  EXPECT_EQ(located_text("</s><s>a boat<loc_0><loc_1><loc_500><loc_999></s>",
                         LocatedForm::kDescriptionWithBoxes, options)
                .dump(),
            R"({"bboxes":[[0,0,320,479]],"labels":["a boat"]})");
}

TEST(LocatedText, HasBounds) {
  const LocatedOptions options{640, 480};
  const std::string far = "a<loc_1><loc_1><loc_1><loc_99999999999999999999>";
  EXPECT_THROW(located_text(far, LocatedForm::kDescriptionWithBoxes, options), InputError);
  EXPECT_THROW(located_text(std::string(kMaxLocatedBytes + 1, 'a'), LocatedForm::kOcr, options),
               InputError);
}

// Texts that a regular expression would look at again and again.
TEST(LocatedText, TakesTimeByLength) {
  const LocatedOptions options{640, 480};
  std::string texts[] = {"", "", ""};
  while (texts[1].size() + 32 < kMaxLocatedBytes) {
    texts[0] += "<loc_1>";
    texts[1] += "a<loc_1>";
    texts[2] += "<";
  }
  for (const std::string& text : texts)
    for (int form = 0; form <= static_cast<int>(LocatedForm::kBoxes); ++form)
      EXPECT_FALSE(located_text(text, static_cast<LocatedForm>(form), options).is_null());
}

}  // namespace
}  // namespace tandem::located_text_test
