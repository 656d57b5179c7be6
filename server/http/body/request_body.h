// One request's body on its way in: what the connection reads is decompressed (Content-Encoding),
// taken apart if it is a form, and kept within bounds of memory and disk. No sockets, no threads of
// its own.
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

// A body that is not taken; thrown. The answer says why.
class BodyRefused final : public std::runtime_error {
 public:
  explicit BodyRefused(HttpResponse answer)
      : std::runtime_error("a body is refused"), answer_(std::move(answer)) {}
  HttpResponse take_answer() { return std::move(answer_); }

 private:
  HttpResponse answer_;
};

// How large a body may be, and the flag that says so.
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
  // form: a form with a file, as its Content-Type must say. `length` is the Content-Length. Throws
  // BodyRefused: a coding that is not understood (415), no form.
  RequestBody(const HttpRequest& head, bool form, const BodyBound& bound, const BodyPlaces& places,
              std::optional<uint64_t> length);

  // Bytes as they came, without the transfer coding.
  void add(std::string_view bytes) { raw_ += bytes; }
  // Works off a part of them, so that memory is bounded however well they are compressed. Returns
  // whether anything is left. Throws BodyRefused.
  bool work();
  // Enough has come together for write(), which blocks: any thread, while nothing else is called.
  // Its errors come from the next call.
  bool wants_write() const;
  void write();
  // All has come, and is worked off. Afterwards write() is due, then give_to(), which throws
  // BodyRefused too.
  void finish();
  // Leaves the body, or the form, and what it takes of the memory.
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
  std::unique_ptr<FormParser> parser_;
  std::optional<InputError> write_error_;
};

}  // namespace tandem::server
