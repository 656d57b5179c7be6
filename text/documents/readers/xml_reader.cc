// XML by expat, which tells where in the source each thing is. Entities are not expanded.
#include <expat.h>

#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/readable_text.h"
#include "text/documents/readers/document_readers.h"
#include "text/documents/readers/html_entities.h"
#include "text/documents/words.h"

namespace tandem {
namespace {

constexpr std::string_view kFragmentStart = "<tandem-fragment>",
                           kFragmentEnd = "</tandem-fragment>";

struct XmlEvent {
  enum class Kind { kStart, kEnd, kText, kCharacters, kOther };
  Kind kind = Kind::kOther;
  size_t begin = 0, end = 0;
  size_t element = 0;           // of a start or an end, its own; else that around it
  std::string characters = {};  // of kCharacters
};

struct XmlElement {
  std::string name;
  size_t parent = 0;
  bool has_text = false;  // its own, not its children's
  bool opaque = false;
};

// What the source has, in its order.
struct XmlEvents {
  XML_Parser parser = nullptr;
  const TagRules* rules = nullptr;
  size_t offset = 0;  // of the source in what is parsed
  std::string_view source;
  std::vector<XmlEvent> events;
  std::vector<XmlElement> elements{{}};  // the first is around all
  size_t current = 0;
  bool in_cdata = false;
  std::string encoding;  // that the declaration names

  void add(XmlEvent::Kind kind, std::string characters = {}) {
    const auto at = static_cast<size_t>(XML_GetCurrentByteIndex(parser));
    const auto count = static_cast<size_t>(XML_GetCurrentByteCount(parser));
    if (at < offset || at + count > offset + source.size()) return;  // of the fragment's frame
    events.push_back({kind, at - offset, at - offset + count, current, std::move(characters)});
  }
};

bool is_opaque_element(const TagRules& rules, std::string_view name, const XML_Char** attributes) {
  static const std::set<std::string_view> kNames = {"code", "pre", "script", "style"};
  for (size_t i = 0; attributes[i] != nullptr; i += 2) {
    const std::string_view key = attributes[i], value = attributes[i + 1];
    if ((key == "translate" || key == "its:translate") && (value == "no" || value == "false"))
      return true;
    if (key == "class" && value == "notranslate") return true;
  }
  return kNames.contains(name) || rules.ignored.contains(name);
}

XmlEvents& events_of(void* data) { return *static_cast<XmlEvents*>(data); }

void on_start(void* data, const XML_Char* name, const XML_Char** attributes) {
  XmlEvents& all = events_of(data);
  all.elements.push_back(
      {name, all.current, false, is_opaque_element(*all.rules, name, attributes)});
  all.current = all.elements.size() - 1;
  all.add(XmlEvent::Kind::kStart);
}

void on_end(void* data, const XML_Char*) {
  XmlEvents& all = events_of(data);
  all.add(XmlEvent::Kind::kEnd);
  all.current = all.elements[all.current].parent;
}

void on_text(void* data, const XML_Char* text, int length) {
  XmlEvents& all = events_of(data);
  if (all.in_cdata) return all.add(XmlEvent::Kind::kOther);
  const std::string_view characters(text, static_cast<size_t>(length));
  if (characters.find_first_not_of(" \t\r\n") != characters.npos)
    all.elements[all.current].has_text = true;
  const bool is_written_so = XML_GetCurrentByteCount(all.parser) == length;
  all.add(is_written_so ? XmlEvent::Kind::kText : XmlEvent::Kind::kCharacters,
          is_written_so ? "" : std::string(characters));
}

void on_cdata_start(void* data) {
  events_of(data).in_cdata = true;
  events_of(data).add(XmlEvent::Kind::kOther);
}
void on_cdata_end(void* data) {
  events_of(data).in_cdata = false;
  events_of(data).add(XmlEvent::Kind::kOther);
}

// Comments, processing instructions, the document type, references to entities.
void on_other(void* data, const XML_Char* text, int length) {
  XmlEvents& all = events_of(data);
  const std::string_view bytes(text, static_cast<size_t>(length));
  if (bytes.starts_with('&')) {
    const CharacterReference found = character_reference(bytes, 0, /*old_names=*/false);
    if (found.length == bytes.size()) return all.add(XmlEvent::Kind::kCharacters, found.text);
  }
  all.add(XmlEvent::Kind::kOther);
}

void on_declaration(void* data, const XML_Char*, const XML_Char* encoding, int) {
  if (encoding != nullptr) events_of(data).encoding = encoding;
  events_of(data).add(XmlEvent::Kind::kOther);
}

bool is_document(std::string_view source) {
  const size_t first = source.find_first_not_of(" \t\r\n");
  const std::string_view begin = first == source.npos ? "" : source.substr(first);
  return begin.starts_with("<?xml") || begin.starts_with("<!DOCTYPE");
}

void check_encoding(const std::string& encoding, const std::string& field) {
  std::string name = encoding;
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (name.empty() || name == "utf-8" || name == "utf8" || name == "us-ascii" || name == "ascii")
    return;
  throw invalid_request(
      field, "the XML says that it is \"" + readable(encoding.substr(0, 40)) + "\"; UTF-8 is read");
}

XmlEvents parse_xml(std::string_view source, const TagRules& rules, const std::string& field) {
  const bool whole = is_document(source);
  std::string framed;
  if (!whole)
    framed = std::string(kFragmentStart) + std::string(source) + std::string(kFragmentEnd);
  const std::string_view bytes = whole ? source : framed;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    throw invalid_request(field, "the document is larger than 2 GiB");
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser(
      XML_ParserCreate("UTF-8"), XML_ParserFree);
  if (parser == nullptr) throw std::bad_alloc();
  XmlEvents out;
  out.parser = parser.get();
  out.rules = &rules;
  out.offset = whole ? 0 : kFragmentStart.size();
  out.source = source;
  XML_SetUserData(parser.get(), &out);
  XML_SetElementHandler(parser.get(), on_start, on_end);
  XML_SetCharacterDataHandler(parser.get(), on_text);
  XML_SetCdataSectionHandler(parser.get(), on_cdata_start, on_cdata_end);
  XML_SetXmlDeclHandler(parser.get(), on_declaration);
  XML_SetDefaultHandler(parser.get(), on_other);
  XML_UseForeignDTD(parser.get(), XML_TRUE);  // entities that nobody declares stay as they are
  const XML_Status status =
      XML_Parse(parser.get(), bytes.data(), static_cast<int>(bytes.size()), XML_TRUE);
  check_encoding(out.encoding, field);
  if (status != XML_STATUS_OK)
    throw invalid_request(field, "the XML is not well-formed in line " +
                                     std::to_string(XML_GetCurrentLineNumber(parser.get())) + ": " +
                                     XML_ErrorString(XML_GetErrorCode(parser.get())));
  out.parser = nullptr;
  return out;
}

class XmlReader {
 public:
  XmlReader(DocumentFlow& flow, const TagRules& rules, XmlEvents events)
      : flow_(flow), rules_(rules), all_(std::move(events)), inside_(all_.elements.size()) {
    // Parents come before their children.
    for (size_t i = 1; i < inside_.size(); ++i) inside_[i] = is_inside(i);
  }

  void read() {
    for (size_t i = 0; i < all_.events.size(); ++i) {
      const XmlEvent& event = all_.events[i];
      if (opaque_ != 0) {
        take_opaque(event);
      } else if (event.kind == XmlEvent::Kind::kStart) {
        const bool is_empty = i + 1 < all_.events.size() &&
                              all_.events[i + 1].kind == XmlEvent::Kind::kEnd &&
                              all_.events[i + 1].begin == all_.events[i + 1].end;
        start(event, is_empty);
        if (is_empty) ++i;
      } else {
        take(event);
      }
    }
    flow_.boundary();
  }

 private:
  bool is_inside(size_t element) const {
    const XmlElement& one = all_.elements[element];
    if (rules_.splitting.contains(one.name)) return false;
    if (rules_.inside.contains(one.name)) return true;
    if (!rules_.detect_outline) return true;
    return all_.elements[one.parent].has_text || inside_[one.parent];
  }
  void start(const XmlEvent& event, bool is_empty) {
    const bool inside = inside_[event.element];
    if (!inside) flow_.boundary();
    if (is_empty) {
      if (inside && flow_.in_block()) flow_.point(event.begin, event.end);
      return;
    }
    if (all_.elements[event.element].opaque) {
      opaque_ = event.element;
      opaque_begin_ = event.begin;
      shown_.clear();
      return;
    }
    if (inside) open_.push_back({event.element, flow_.open(event.begin, event.end)});
  }
  void take(const XmlEvent& event) {
    switch (event.kind) {
      case XmlEvent::Kind::kText: return flow_.text(event.begin, event.end);
      case XmlEvent::Kind::kCharacters:
        return flow_.characters(event.begin, event.end, event.characters);
      case XmlEvent::Kind::kEnd: {
        if (!inside_[event.element]) {
          flow_.boundary();
          open_.clear();
          return;
        }
        const bool is_open = !open_.empty() && open_.back().element == event.element;
        flow_.close(event.begin, event.end, is_open ? open_.back().pair : -1);
        if (is_open) open_.pop_back();
        return;
      }
      default:
        if (flow_.in_block()) flow_.point(event.begin, event.end);
    }
  }
  void take_opaque(const XmlEvent& event) {
    if (event.kind == XmlEvent::Kind::kText)
      shown_ += flow_.source().substr(event.begin, event.end - event.begin);
    if (event.kind == XmlEvent::Kind::kCharacters) shown_ += event.characters;
    if (event.kind != XmlEvent::Kind::kEnd || event.element != opaque_) return;
    if (inside_[opaque_])
      flow_.fixed(opaque_begin_, event.end, shown_);
    else
      flow_.boundary();
    opaque_ = 0;
  }

  DocumentFlow& flow_;
  const TagRules& rules_;
  const XmlEvents all_;
  std::vector<bool> inside_;  // of the elements: whether they are within sentences
  struct OpenElement {
    size_t element;
    int pair;
  };
  std::vector<OpenElement> open_;
  size_t opaque_ = 0, opaque_begin_ = 0;
  std::string shown_;
};

}  // namespace

void read_xml(DocumentFlow& flow, const TagRules& rules, const std::string& field) {
  XmlReader(flow, rules, parse_xml(flow.source(), rules, field)).read();
}

}  // namespace tandem
