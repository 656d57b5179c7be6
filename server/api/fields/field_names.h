// The client's names for fields that the engine calls otherwise, so that errors use the client's
// names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tandem::server {

class FieldNames {
 public:
  // `ours` in errors is `theirs`. The first one counts.
  void add(std::string ours, std::string theirs) {
    theirs_.emplace(std::move(ours), std::move(theirs));
  }
  void add(const FieldNames& others) {
    theirs_.insert(others.theirs_.begin(), others.theirs_.end());
  }
  std::string of(const std::string& field) const;
  // The message with our names replaced: the leading one, and later ones that are not English
  // words.
  std::string in(std::string_view text) const;
  InputError in(const InputError& error) const;
  // f(), whose InputErrors name the client's fields.
  template <class F>
  auto around(const F& f) const {
    try {
      return f();
    } catch (const InputError& error) {
      throw in(error);
    }
  }

 private:
  std::map<std::string, std::string, std::less<>> theirs_;
};

}  // namespace tandem::server
