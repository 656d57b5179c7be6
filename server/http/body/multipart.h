// multipart/form-data (RFC 7578, RFC 2046), as browsers, curl and HTTP libraries send it. Parsed as
// it arrives: no part has to fit the memory. Our own, because Boost.Beast has no parser. The ones
// in Debian read mail (GMime), stream without bounds (Poco) or belong to another server
// (libmicrohttpd).
//
// Refuses deviations from the standard instead of guessing: a line end without CR, folded headers
// or headers without a name, two names, a body that ends before its last boundary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::server {

struct FormLimits {
  size_t parts = 256;
  size_t header_bytes = 4096;  // of a part
};

// Gets the parts in their order, each as begin, content any number of times, end. May throw.
class FormSink {
 public:
  virtual ~FormSink() = default;
  // filename: as the client says; no path of this host.
  virtual void begin_part(std::string name, std::optional<std::string> filename) = 0;
  virtual void content(std::string_view bytes) = 0;  // of any bytes
  virtual void end_part() = 0;
};

class FormParser {
 public:
  // The sink outlives the parser.
  FormParser(std::string_view boundary, FormSink& sink, const FormLimits& limits = {});

  // More of the body. Takes time in proportion to it, and memory for a boundary or for a part's
  // header. Throws InputError (body).
  void put(std::string_view bytes);
  // The body has ended. Throws InputError (body): the form has not.
  void finish();

 private:
  enum class State { kPreamble, kHeader, kContent, kEpilogue };
  struct Boundary;

  [[noreturn]] static void fail(const std::string& what);
  [[noreturn]] void fail_part(const std::string& what) const;
  Boundary find_boundary(bool at_end) const;
  bool parse(bool at_end);
  bool parse_to_boundary(bool at_end);
  bool parse_header();
  void read_header(std::string_view name, std::string_view value);
  void pass_on(size_t bytes);
  void consume(size_t bytes);

  const std::string delimiter_;  // with the line end before it
  FormSink& sink_;
  const FormLimits limits_;
  State state_ = State::kPreamble;
  std::string pending_;  // what has come and is not used up
  size_t virtual_ = 2;   // bytes at its front that are no content: the line end before a boundary
  size_t header_ = 0;    // bytes of the part's header so far
  size_t number_ = 0;    // of the part, from 1
  bool last_ = false;    // the boundary was the form's last one
  std::optional<std::string> name_, filename_;
};

// The boundary that a Content-Type names, 1 to 70 characters. Throws InputError (content-type): it
// is no multipart/form-data, or has no boundary.
std::string boundary_of(std::string_view content_type);

}  // namespace tandem::server
