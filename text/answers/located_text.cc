// The expressions of HuggingFace's code, as loops that are linear in the text: a label is a run
// without "<", places are runs of whole tags.
#include "text/answers/located_text.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/replaced.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Places = std::vector<int64_t>;

constexpr std::string_view kPlace = "<loc_", kSep = "<sep>", kPoly = "<poly>", kPolyEnd = "</poly>";
constexpr size_t kLeastTags = 4;  // of a region
constexpr int kBins = 1000;
constexpr int64_t kMostPlace = int64_t{1} << 40;  // none that a pixel stands for

struct PlaceTag {
  int64_t place;
  size_t end;  // behind it
};

// <loc_(\d+)> at `at`.
std::optional<PlaceTag> place_at(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with(kPlace)) return std::nullopt;
  const size_t begin = at + kPlace.size();
  int64_t value = 0;
  for (at = begin; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.value == U'>' && at > begin) return PlaceTag{value, at + 1};
    const int32_t digit = u_charDigitValue(static_cast<UChar32>(c.value));
    if (digit < 0) return std::nullopt;
    value = std::min(value * 10 + digit, kMostPlace);
    at += static_cast<size_t>(c.length);
  }
  return std::nullopt;
}

// Behind a tag that places of a region are made of.
std::optional<size_t> tag_end(std::string_view text, size_t at, bool of_polygons) {
  if (const auto place = place_at(text, at)) return place->end;
  if (!of_polygons) return std::nullopt;
  for (const std::string_view tag : {kSep, kPoly, kPolyEnd})
    if (text.substr(at).starts_with(tag)) return at + tag.size();
  return std::nullopt;
}

// The texts of ([^<]+(?:TAG){4,}), or without the label.
std::vector<std::string_view> regions(std::string_view text, bool labelled, bool of_polygons) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t tags = std::min(text.find('<', at), text.size());
    size_t end = tags, count = 0;
    while (end < text.size()) {
      const auto next = tag_end(text, end, of_polygons);
      if (!next) break;
      end = *next, ++count;
    }
    const size_t begin = labelled ? at : tags;
    if (count >= kLeastTags && (!labelled || tags > at)) {
      out.push_back(text.substr(begin, end - begin));
      at = end;
    } else {
      at = labelled ? tags + 1 : std::max(end, tags + 1);  // a label may begin within a tag
    }
  }
  return out;
}

// ^\s*(.*?)(?=STOP), stripped; nothing: no match.
std::optional<std::string> phrase_of(std::string_view region, bool of_polygons) {
  const size_t begin = region.size() - left_stripped(region).size();
  size_t stop = region.size() + 1;
  for (const std::string_view tag :
       {std::string_view("<od>"), std::string_view("</od>"), std::string_view("<box>"),
        std::string_view("</box>"), std::string_view("<bbox>"), std::string_view("</bbox>"), kPlace,
        of_polygons ? kPoly : kPlace})
    stop = std::min(stop, region.find(tag, begin));
  if (stop > region.size()) return std::nullopt;
  const std::string_view phrase = region.substr(begin, stop - begin);
  if (phrase.find('\n') != phrase.npos) return std::nullopt;
  return std::string(stripped(phrase));
}

// Of a run of place tags.
Places places_of(std::string_view tags) {
  Places out;
  for (size_t at = 0; (at = tags.find(kPlace, at)) != tags.npos;) {
    const auto place = place_at(tags, at);
    if (!place) break;
    out.push_back(place->place);
    at = place->end;
  }
  return out;
}

std::string ascii_of(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return out;
}

class Located {
 public:
  Located(std::string_view text, const LocatedOptions& options)
      : text_(replaced(replaced(replaced(text, "<s>", ""), "</s>", ""), "<pad>", "")),
        options_(options) {}

  struct Region {
    std::string label;
    OrderedJson where;  // a box, or polygons
  };

  // Boxes of four places each. allow_empty: without labels.
  std::vector<Region> boxes(bool allow_empty) const {
    std::vector<Region> out;
    for_boxes(allow_empty, [&](const std::string& phrase, OrderedJson box) {
      out.push_back({ascii_of(phrase), std::move(box)});
    });
    return out;
  }

  std::vector<Region> phrases() const {
    std::vector<Region> out;
    for_boxes(/*allow_empty=*/false, [&](const std::string& phrase, OrderedJson box) {
      const auto& banned = options_.banned_phrases;
      if (std::find(banned.begin(), banned.end(), phrase) == banned.end())
        out.push_back({ascii_of(phrase), std::move(box)});
    });
    return out;
  }

  std::vector<Region> polygons(bool allow_empty) const {
    std::vector<Region> out;
    for (const std::string_view region : regions(text_, !allow_empty, /*of_polygons=*/true)) {
      const auto first = place_at(region, 0);
      const std::string_view rest = first ? region.substr(first->end) : region;
      if (rest.empty() && !allow_empty) continue;
      const auto phrase = phrase_of(rest, /*of_polygons=*/true);
      if (!phrase) continue;
      for (const std::string_view part : polygon_parts(region))
        if (OrderedJson shapes = shapes_of(part); !shapes.empty())
          out.push_back({*phrase, std::move(shapes)});
    }
    return out;
  }

  // (.+?) and eight places: the corners of what is written there.
  std::vector<Region> quads() const {
    std::vector<Region> out;
    size_t from = 0;
    for (size_t at = 1; at < text_.size();) {
      at = text_.find(kPlace, at);
      if (at == text_.npos) break;
      const auto [places, end] = eight_places(at);
      std::string_view label = std::string_view(text_).substr(from, at - from);
      if (places.size() == 8) label.remove_prefix(label.rfind('\n') + 1);
      if (places.size() < 8 || label.empty()) {
        ++at;
        continue;
      }
      add_quad(std::string(stripped(label)), places, out);
      from = end, at = end + 1;
    }
    return out;
  }

  bool has_polygons() const { return text_.find(kPoly) != text_.npos; }

 private:
  // torch's, in float32: the middle of a bin.
  static int64_t pixel(int64_t place, int size) {
    const auto bin = static_cast<float>(static_cast<double>(size) / kBins);
    const float at = (static_cast<float>(place) + 0.5f) * bin;
    if (!(at < static_cast<float>(std::numeric_limits<int32_t>::max())))
      throw InputError(ErrorKind::kResource, "a place in the answer is too large");
    return static_cast<int64_t>(at);
  }

  template <class Iterator>
  OrderedJson pixels(Iterator begin, Iterator end) const {
    OrderedJson out = OrderedJson::array();
    for (auto i = begin; i != end; ++i)
      out.push_back(pixel(*i, out.size() % 2 == 0 ? options_.width : options_.height));
    return out;
  }

  void for_boxes(bool allow_empty,
                 const std::function<void(const std::string&, OrderedJson)>& take) const {
    for (const std::string_view region : regions(text_, !allow_empty, /*of_polygons=*/false)) {
      const auto phrase = phrase_of(region, /*of_polygons=*/false);
      if (!phrase) continue;
      const Places places = places_of(region);
      for (auto i = places.begin(); places.end() - i >= 4; i += 4) take(*phrase, pixels(i, i + 4));
    }
  }

  // <poly>(.*?)</poly>, or all of it where there is none.
  static std::vector<std::string_view> polygon_parts(std::string_view region) {
    if (region.find(kPoly) == region.npos || region.find(kPolyEnd) == region.npos) return {region};
    std::vector<std::string_view> out;
    for (size_t at = 0; (at = region.find(kPoly, at)) != region.npos;) {
      const size_t begin = at + kPoly.size(), end = region.find(kPolyEnd, begin);
      if (end == region.npos) break;
      out.push_back(region.substr(begin, end - begin));
      at = end + kPolyEnd.size();
    }
    return out;
  }

  // ((?:<loc_\d+>)+)(?:<sep>|$): runs of places that <sep> or the end follows.
  OrderedJson shapes_of(std::string_view part) const {
    OrderedJson out = OrderedJson::array();
    for (size_t at = 0; (at = part.find(kPlace, at)) != part.npos;) {
      Places places;
      size_t end = at;
      while (const auto place = place_at(part, end)) {
        places.push_back(place->place);
        end = place->end;
      }
      if (end == part.size() || part.substr(end).starts_with(kSep)) {
        if (places.size() % 2 == 1) places.pop_back();
        out.push_back(pixels(places.begin(), places.end()));
      }
      at = std::max(end, at + 1);
    }
    return out;
  }

  std::pair<Places, size_t> eight_places(size_t at) const {
    Places out;
    while (out.size() < 8) {
      const auto place = place_at(text_, at);
      if (!place) break;
      out.push_back(place->place);
      at = place->end;
    }
    return {std::move(out), at};
  }

  void add_quad(std::string label, const Places& places, std::vector<Region>& out) const {
    OrderedJson quad = pixels(places.begin(), places.end());
    if (options_.area_threshold > 0) {
      double area = 0;
      for (size_t i = 0; i + 3 < quad.size(); i += 2)
        area += quad[i].get<double>() * quad[i + 3].get<double>() -
                quad[i + 2].get<double>() * quad[i + 1].get<double>();
      const double image = static_cast<double>(options_.width) * options_.height;
      if (0.5 * std::abs(area) < image * options_.area_threshold) return;
    }
    out.push_back({std::move(label), std::move(quad)});
  }

  std::string text_;
  const LocatedOptions& options_;
};

OrderedJson lists_of(std::vector<Located::Region> regions, const char* where,
                     const char* labels = "labels") {
  OrderedJson out = {{where, OrderedJson::array()}, {labels, OrderedJson::array()}};
  for (Located::Region& region : regions) {
    out[where].push_back(std::move(region.where));
    out[labels].push_back(std::move(region.label));
  }
  return out;
}

}  // namespace

nlohmann::ordered_json located_text(std::string_view text, LocatedForm form,
                                    const LocatedOptions& options) {
  if (text.size() > kMaxLocatedBytes)
    throw InputError(ErrorKind::kResource, "the answer is too long for its places to be read");
  const Located located(text, options);
  switch (form) {
    case LocatedForm::kPureText:
      return std::string(stripped(replaced(replaced(text, "<s>", ""), "</s>", "")));
    case LocatedForm::kOcr: return lists_of(located.quads(), "quad_boxes");
    case LocatedForm::kDescriptionWithBoxes: return lists_of(located.boxes(false), "bboxes");
    case LocatedForm::kPhraseGrounding: return lists_of(located.phrases(), "bboxes");
    case LocatedForm::kPolygons: return lists_of(located.polygons(true), "polygons");
    case LocatedForm::kBoxes: return lists_of(located.boxes(true), "bboxes");
    case LocatedForm::kDescriptionWithBoxesOrPolygons: break;
  }
  const bool shapes = located.has_polygons();
  OrderedJson out = lists_of(shapes ? std::vector<Located::Region>() : located.boxes(false),
                             "bboxes", "bboxes_labels");
  out.update(lists_of(shapes ? located.polygons(false) : std::vector<Located::Region>(), "polygons",
                      "polygons_labels"));
  return out;
}

}  // namespace tandem
