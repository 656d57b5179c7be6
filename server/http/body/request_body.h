// One request's body on its way in. It is decompressed (Content-Encoding), parsed if it is a form,
// and kept within bounds of memory and disk. No sockets, no threads of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "server/http/body/form.h"
#include "server/http/body/inflater.h"
#include "server/http/body_budget.h"
#include "server/http/http.h"

namespace tandem::server {

// Thrown for a refused body; has the answer with the reason.
class BodyRefused final : public std::runtime_error {
 public:
  explicit BodyRefused(HttpResponse answer)
      : std::runtime_error("a body is refused"), answer_(std::move(answer)) {}
  HttpResponse take_answer() { return std::move(answer_); }

 private:
  HttpResponse answer_;
};

// The largest body, and the flag that sets it.
struct BodyBound {
  size_t bytes = 0;
  const char* flag = "";
};
std::string too_large_text(size_t most, std::string_view flag);
HttpResponse too_large(const BodyBound& bound);

struct BodyPlaces {
  std::shared_ptr<BodyBudget> memory, disk;
};
HttpResponse no_memory(const BodyBudget& memory);  // 429: there is no more of it
HttpResponse no_disk(const BodyBudget& disk);

class RequestBody {
 public:
  // form: a form with a file, as its Content-Type must say, or (may_be_file) the file itself, which
  // then is a form's only part, "file". `length` is the Content-Length. Throws BodyRefused: a
  // coding that is not understood (415), no form.
  RequestBody(const HttpRequest& head, bool form, const BodyBound& bound, const BodyPlaces& places,
              std::optional<uint64_t> length, bool may_be_file = false);

  // Bytes as they came, without the transfer coding.
  void add(std::string_view bytes) { raw_ += bytes; }
  // Processes a part of them, so that memory is bounded however well they are compressed. Returns
  // whether any are left. Throws BodyRefused.
  bool work();
  // Whether enough has arrived for write(). That blocks; call it from any thread, while nothing
  // else is called. The next call throws its errors.
  bool wants_write() const;
  void write();
  // Everything has arrived and is processed. Afterwards call write(), then give_to(), which throws
  // BodyRefused too.
  void finish();
  // Moves the body or form, with its share of memory, into the request.
  void give_to(HttpRequest& request);

  const BodyBound& bound() const { return bound_; }

 private:
  void take(std::string_view bytes);
  void take_memory(size_t bytes);
  template <class F>
  void refusing(F f);

  const BodyBound bound_;
  const BodyPlaces places_;
  const std::shared_ptr<BodyShare> memory_, disk_;
  std::string raw_;
  std::unique_ptr<Inflater> inflater_;
  std::string inflated_;
  size_t size_ = 0;      // decompressed
  size_t overhead_ = 0;  // memory beside the text
  bool length_known_ = false;
  std::string text_;  // unless it is a form
  std::unique_ptr<FormBuilder> builder_;
  std::unique_ptr<FormParser> parser_;  // null with a builder: all bytes are its file's
  std::optional<InputError> write_error_;
};

}  // namespace tandem::server
