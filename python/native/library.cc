// The C interface: no exception leaves it.
#include "python/native/library.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/network/process_limits.h"
#include "base/error.h"
#include "base/json.h"
#include "launcher/run_program.h"
#include "python/native/documents.h"
#include "python/native/inbox.h"
#include "python/native/layouts.h"
#include "python/native/open_engine.h"
#include "python/native/pages.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/version.h"

using nlohmann::json;

struct tandem_engine {
  std::shared_ptr<tandem::library::OpenEngine> engine;
};
struct tandem_inbox {
  tandem::library::Inbox inbox;
};
struct tandem_documents {
  tandem::library::Documents documents;
};

namespace {

char* copied(std::string_view text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (out == nullptr) std::abort();
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return out;
}

char* copied(std::string_view text, size_t* size) {
  *size = text.size();
  return copied(text);
}

// Null where there is nothing.
template <class T>
T* copied(const std::vector<T>& values) {
  if (values.empty()) return nullptr;
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                               values.size() * sizeof(T));
  return reinterpret_cast<T*>(copied(bytes));
}

// Of the exception that is being handled.
json current_error() {
  std::string message, type = tandem::api_name(tandem::ErrorKind::kInternal);
  json param;
  try {
    throw;
  } catch (const tandem::InputError& error) {
    message = error.what();
    type = tandem::api_name(error.kind());
    if (!error.param().empty()) param = error.param();
  } catch (const std::exception& error) {
    message = error.what();
    if (const std::string want = tandem::want_of_resources(error); !want.empty()) {
      message = want;
      type = tandem::api_name(tandem::ErrorKind::kResource);
    }
  } catch (...) {
    message = "an exception of an unknown kind";
  }
  return {{"message", message}, {"type", type}, {"param", param}};
}

char* current_error_text() { return copied(tandem::dump_line(current_error())); }

}  // namespace

int tandem_library_version(void) { return TANDEM_LIBRARY_VERSION; }
const char* tandem_version(void) { return tandem::kVersion; }
void tandem_free(void* memory) { std::free(memory); }
int tandem_main(int argc, char** argv) { return tandem::launcher::run_program(argc, argv); }

tandem_engine* tandem_open(const char* options, const volatile int* stop, char** error) {
  *error = nullptr;
  try {
    const json given = tandem::parse_json_line(options);
    return new tandem_engine{std::make_shared<tandem::library::OpenEngine>(
        given, [stop] { return stop != nullptr && *stop != 0; })};
  } catch (...) {
    *error = current_error_text();
    return nullptr;
  }
}

void tandem_close(tandem_engine* engine) {
  engine->engine->close();
  delete engine;
}

char* tandem_facts(tandem_engine* engine) {
  return copied(tandem::dump_line(engine->engine->facts()));
}

char* tandem_tokenize(tandem_engine* engine, const char* request) {
  try {
    return copied(tandem::dump_line(engine->engine->tokenize(tandem::parse_json_line(request))));
  } catch (...) {
    return copied(tandem::dump_line({{"error", current_error()}}));
  }
}

tandem_inbox* tandem_inbox_open(tandem_engine* engine) {
  try {
    return new tandem_inbox{tandem::library::Inbox(engine->engine)};
  } catch (...) {
    return nullptr;  // there is no descriptor, or no memory
  }
}

void tandem_inbox_close(tandem_inbox* inbox) { delete inbox; }
int tandem_inbox_fd(tandem_inbox* inbox) { return inbox->inbox.fd(); }

char* tandem_submit(tandem_inbox* inbox, uint64_t number, const char* request, size_t bytes,
                    const void* sound, size_t sound_bytes) {
  try {
    const json given = tandem::parse_json_line({request, bytes});
    std::optional<tandem::MediaSource> source;
    if (sound != nullptr)
      source =
          tandem::MediaSource::of_bytes({static_cast<const char*>(sound), sound_bytes}, "sound");
    inbox->inbox.submit(number, given, std::move(source));
    return nullptr;
  } catch (...) {
    return current_error_text();
  }
}

void tandem_cancel(tandem_inbox* inbox, uint64_t number) { inbox->inbox.cancel(number); }

size_t tandem_poll(tandem_inbox* inbox, int milliseconds, size_t wanted, tandem_news* news,
                   size_t capacity) {
  size_t count = 0;
  for (const auto& one : inbox->inbox.poll(milliseconds, wanted, capacity)) {
    tandem_news& out = news[count++];
    out = {one.number, one.last ? 1 : 0, copied(one.json), one.json.size(), nullptr, 0, nullptr, 0};
    out.values = copied(one.values);
    out.num_values = one.values.size();
    out.ids = copied(one.ids);
    out.num_ids = one.ids.size();
  }
  return count;
}

char* tandem_pdf_pages(const char* request, const void* file, size_t bytes) {
  try {
    const std::string_view content(static_cast<const char*>(file), bytes);
    return copied(
        tandem::dump_line(tandem::library::pdf_pages(tandem::parse_json_line(request), content)));
  } catch (...) {
    return copied(tandem::dump_line({{"error", current_error()}}));
  }
}

char* tandem_page_image(const char* request, const void* file, size_t bytes, size_t* size,
                        char** error) {
  *error = nullptr;
  try {
    const std::string_view content(static_cast<const char*>(file), bytes);
    const std::string image =
        tandem::library::pdf_page_image(tandem::parse_json_line(request), content);
    return copied(image, size);
  } catch (...) {
    *error = current_error_text();
    return nullptr;
  }
}

tandem_documents* tandem_documents_open(const char* rules, char** error) {
  *error = nullptr;
  try {
    return new tandem_documents{tandem::library::Documents(tandem::parse_json_line(rules))};
  } catch (...) {
    *error = current_error_text();
    return nullptr;
  }
}

void tandem_documents_close(tandem_documents* documents) { delete documents; }

char* tandem_documents_add(tandem_documents* documents, const char* source, size_t bytes,
                           size_t* texts) {
  try {
    *texts = documents->documents.add({source, bytes});
    return nullptr;
  } catch (...) {
    return current_error_text();
  }
}

char* tandem_documents_text(tandem_documents* documents, size_t document, size_t text,
                            size_t* size) {
  return copied(documents->documents.texts(document).at(text), size);
}

void tandem_documents_answer(tandem_documents* documents, size_t document, size_t text,
                             const char* translation, size_t bytes) {
  documents->documents.answer(document, text, {translation, bytes});
}

char* tandem_documents_write(tandem_documents* documents, size_t document, size_t* size) {
  return copied(documents->documents.write(document), size);
}

char* tandem_documents_plain_text(tandem_documents* documents, size_t document, size_t* size) {
  return copied(documents->documents.plain_text(document), size);
}

char* tandem_attention(const char* request, const tandem_array* arrays, size_t count) {
  try {
    tandem::library::run_attention(tandem::parse_json_line(request), arrays, count);
    return nullptr;
  } catch (...) {
    return current_error_text();
  }
}
