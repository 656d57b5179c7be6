// EXPECT_INPUT_ERROR(statement, "text", ...): the statement throws InputError, whose message
// contains all the texts.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/error.h"

namespace tandem::test {

template <class F>
::testing::AssertionResult throws_input_error(F&& statement,
                                              std::initializer_list<std::string> texts) {
  try {
    statement();
  } catch (const InputError& e) {
    const std::string message = e.what();
    for (const std::string& text : texts)
      if (message.find(text) == std::string::npos)
        return ::testing::AssertionFailure() << "\"" << message << "\" lacks \"" << text << "\"";
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "no InputError; expected one with \"" << (texts.size() ? *texts.begin() : "") << "\"";
}

}  // namespace tandem::test

#define EXPECT_INPUT_ERROR(statement, ...) \
  EXPECT_TRUE(::tandem::test::throws_input_error([&] { (void)(statement); }, {__VA_ARGS__}))
