#include "server/http/body/request_body.h"

#include <boost/beast/core/string.hpp>

#include "base/log/log.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

constexpr size_t kInflateAtOnce = 64 * 1024;
constexpr size_t kInflateMemory = kInflateAtOnce + 48 * 1024;  // with zlib's window
constexpr size_t kWriteAtOnce = 256 * 1024;
constexpr const char* kCodings = "gzip, deflate";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

[[noreturn]] void refuse_coding(std::string_view coding) {
  HttpResponse answer =
      error_response(415, "Content-Encoding \"" + std::string(coding.substr(0, 80)) +
                              "\" is not understood; " + kCodings + " or none are");
  answer.headers.emplace_back("accept-encoding", kCodings);  // RFC 9110, 12.5.3
  throw BodyRefused(std::move(answer));
}

// Null: the body is as it is.
std::unique_ptr<Inflater> make_inflater(const HttpRequest& head) {
  std::unique_ptr<Inflater> inflater;
  for (const auto& [name, value] : head.headers) {
    if (name != "content-encoding") continue;
    const std::string_view coding = trimmed(value);
    const auto is = [&](const char* word) {
      return boost::beast::iequals({coding.data(), coding.size()}, word);
    };
    if (coding.empty() || is("identity")) continue;
    const bool gzip = is("gzip") || is("x-gzip");
    if (inflater || (!gzip && !is("deflate"))) refuse_coding(coding);
    inflater =
        std::make_unique<Inflater>(gzip ? Inflater::Format::kGzip : Inflater::Format::kDeflate);
  }
  return inflater;
}

bool is_form_body(const HttpRequest& head) {
  const std::string* type = head.header("content-type");
  return type != nullptr && boost::beast::iequals(type->substr(0, 10), "multipart/");
}

std::string boundary_of_form(const HttpRequest& head) {
  const std::string* type = head.header("content-type");
  if (type == nullptr)
    throw invalid_request("content-type", "is missing; expected multipart/form-data");
  return boundary_of(*type);
}

}  // namespace

std::string too_large_text(size_t most, std::string_view flag) {
  return "the body is larger than " + std::to_string(most) + " bytes" +
         (flag.empty() ? "" : " (" + std::string(flag) + ")");
}

HttpResponse too_large(const BodyBound& bound) {
  return error_response(413, too_large_text(bound.bytes, bound.flag));
}

HttpResponse no_memory(const BodyBudget& memory) {
  return error_response(429, no_body_memory(memory).what());
}

HttpResponse no_disk(const BodyBudget& disk) {
  return error_response(429,
                        "the uploads under way take all the disk space that the server has for "
                        "them (--max-upload-disk, " +
                            std::to_string(disk.all()) + " bytes); try again later");
}

RequestBody::RequestBody(const HttpRequest& head, bool form, const BodyBound& bound,
                         const BodyPlaces& places, std::optional<uint64_t> length, bool may_be_file)
    : bound_(bound),
      places_(places),
      memory_(std::make_shared<BodyShare>(places.memory)),
      disk_(std::make_shared<BodyShare>(places.disk)),
      inflater_(make_inflater(head)),
      length_known_(length.has_value() && !inflater_) {
  if (inflater_) take_memory(overhead_ = kInflateMemory);
  if (!form) {
    if (length_known_) text_.reserve(std::min<uint64_t>(*length, bound_.bytes));
    return;
  }
  refusing([&] {
    const bool file = may_be_file && !is_form_body(head);
    const std::string boundary = file ? "" : boundary_of_form(head);
    builder_ = std::make_unique<FormBuilder>(
        FormBuilder::Counters{.memory = [this](size_t bytes) { take_memory(bytes); },
                              .disk =
                                  [this](size_t bytes) {
                                    if (!disk_->grow_by(bytes))
                                      throw BodyRefused(no_disk(*places_.disk));
                                  },
                              .begin_file = [this] { take_memory(kWriteAtOnce); }});
    if (file)
      builder_->begin_part("file", "");
    else
      parser_ = std::make_unique<FormParser>(boundary, *builder_);
  });
}

// What is wrong with the body becomes an answer.
template <class F>
void RequestBody::refusing(F f) {
  try {
    if (write_error_) throw *write_error_;
    f();
  } catch (const InputError& e) {
    if (e.kind() == ErrorKind::kUnavailable) log_error("an upload is refused: {}", e.what());
    throw BodyRefused(error_response(e));
  }
}

void RequestBody::take_memory(size_t bytes) {
  if (!memory_->grow_by(bytes)) throw BodyRefused(no_memory(*places_.memory));
}

void RequestBody::take(std::string_view bytes) {
  size_ += bytes.size();
  if (size_ > bound_.bytes) throw BodyRefused(too_large(bound_));
  if (parser_) return parser_->put(bytes);
  if (builder_) return builder_->content(bytes);
  text_ += bytes;
  // Of a body whose length is known, nothing but what has come is touched.
  if (!memory_->grow_to(overhead_ + (length_known_ ? text_.size() : text_.capacity())))
    throw BodyRefused(no_memory(*places_.memory));
}

bool RequestBody::work() {
  bool more = false;
  refusing([&] {
    if (!inflater_) {
      take(raw_);
      return raw_.clear();
    }
    std::string_view rest = raw_;
    inflated_.clear();
    more = inflater_->inflate(rest, inflated_, kInflateAtOnce);
    raw_.erase(0, raw_.size() - rest.size());
    more = more || !raw_.empty();
    take(inflated_);
  });
  return more;
}

bool RequestBody::wants_write() const {
  return builder_ && builder_->unwritten() >= kWriteAtOnce - kInflateAtOnce;
}

void RequestBody::write() {
  if (!builder_) return;
  try {
    builder_->write();
  } catch (const InputError& e) {
    write_error_ = e;
  }
}

void RequestBody::finish() {
  refusing([&] {
    if (inflater_) inflater_->finish();
    if (parser_) parser_->finish();
  });
}

void RequestBody::give_to(HttpRequest& request) {
  refusing([&] {
    request.memory = memory_;
    if (builder_)
      request.form = builder_->take(disk_);
    else
      request.body = std::move(text_);
  });
}

}  // namespace tandem::server
