// Pages of PDF files by the program that draws them, and PNG files of them.
#include "runtime/media/image/document_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/media/image/image_file.h"
#include "runtime/media/image/png_file.h"
#include "tests/support/files/files.h"

namespace tandem::document_pages_test {
namespace {

std::string error_of(const std::string& text) {
  try {
    read_page_ranges(text, "pages");
  } catch (const InputError& error) {
    return error.param();
  }
  return "";
}

TEST(DocumentPages, RangesAreListed) {
  const std::vector<PageRange> ranges = read_page_ranges("1-3,7,9-", "pages");
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].last, 3);
  EXPECT_EQ(ranges[1].first, 7);
  EXPECT_EQ(ranges[1].last, 7);
  EXPECT_EQ(ranges[2].last, 0);
  for (const char* wrong :
       {"", "0", "-", "-3", "3-1", "1,", "1 2", "a", "1-2-3", "99999999999", "1-0"})
    EXPECT_EQ(error_of(wrong), "pages") << wrong;
}

TEST(DocumentPages, ADocumentIsKnownByItsFirstBytes) {
  EXPECT_TRUE(is_document("\n%PDF-1.7"));
  EXPECT_FALSE(is_document("\x89PNG"));
  EXPECT_FALSE(is_document(std::string(2000, ' ') + "%PDF-1.7"));
}

TEST(PngFile, HasThePixels) {
  Image image = Image::black(37, 11);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * i + i / 7);
  const Image back = decode_image(png_file(image), "image");
  EXPECT_EQ(back.width, 37);
  EXPECT_EQ(back.height, 11);
  EXPECT_EQ(back.rgb, image.rgb);
}

#ifdef TANDEM_PAGE_DECODER

MediaSource file(const std::string& name) {
  return MediaSource::open(test::test_root() / "tests/data/documents" / name, "file");
}

std::string error_of_pages(const MediaSource& source, const std::vector<PageRange>& ranges = {}) {
  try {
    pages_of(source, ranges, "file");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DocumentPages, PagesAreDrawn) {
  const MediaSource source = file("two.pdf");
  EXPECT_EQ(pages_of(source, {}, "file"), (std::vector<int>{1, 2}));
  EXPECT_EQ(pages_of(source, {{2, 0}}, "file"), std::vector<int>{2});
  const Image one = decode_image(page_image(source, 1, 72, "file"), "file"),
              two = decode_image(page_image(source, 2, 144, "file"), "file");
  EXPECT_EQ(one.width, 300);
  EXPECT_EQ(one.height, 200);
  EXPECT_EQ(two.width, 600);
  // Of the second page only letters, in a font that is not in the file.
  EXPECT_GT(std::count(two.rgb.begin(), two.rgb.end(), 0), 300);
  EXPECT_EQ(one.row(150)[3 * 30], 0);  // the square of the first one
}

// The program's own FT_New_Face() let fontconfig find none, and keep that for the whole host.
TEST(DocumentPages, FontsAreFoundBeforeThereIsACacheOfThem) {
  const test::TempDir folder;
  folder.write("fonts.conf",
               "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig>"
               "<dir>/usr/share/fonts</dir><cachedir>" +
                   (folder / "cache").string() + "</cachedir></fontconfig>");
  const auto draw = [&] {
    setenv("FONTCONFIG_FILE", (folder / "fonts.conf").c_str(), 1);
    const Image two = decode_image(page_image(file("two.pdf"), 2, 144, "file"), "file");
    std::filesystem::remove_all(folder.path());
    std::exit(std::count(two.rgb.begin(), two.rgb.end(), 0) > 300 ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process without a program started before
  EXPECT_EXIT(draw(), ::testing::ExitedWithCode(0), ".*");
}

TEST(DocumentPages, WhatIsWrongIsSaid) {
  EXPECT_NE(error_of_pages(file("locked.pdf")).find("encrypted"), std::string::npos);
  EXPECT_NE(error_of_pages(file("two.pdf"), {{3, 3}}).find("has 2 pages"), std::string::npos);
  const MediaSource broken = MediaSource::of_bytes("%PDF-1.4 and no more", "file");
  EXPECT_NE(error_of_pages(broken).find("no PDF"), std::string::npos);
  EXPECT_EQ(pages_of(file("two.pdf"), {}, "file").size(), 2u);  // others are read
}

#endif

}  // namespace
}  // namespace tandem::document_pages_test
