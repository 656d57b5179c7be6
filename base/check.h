// Broken invariants stop the process loudly, with both operands. Bad input is never reported
// this way: it throws InputError (error.h) and reaches whoever sent it.
#pragma once

#include <sstream>
#include <string>

namespace tandem::detail {

[[noreturn]] void check_failed(const char* file, int line, const std::string& message);

template <class A, class B>
[[noreturn]] void check_op_failed(const char* file, int line, const char* expression, const A& a,
                                  const B& b) {
  std::ostringstream out;
  out << expression << " (" << a << " vs. " << b << ")";
  check_failed(file, line, out.str());
}

}  // namespace tandem::detail

#define TANDEM_CHECK(condition, ...)                                                          \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::tandem::detail::check_failed(__FILE__, __LINE__,                                      \
                                     std::string(#condition) + std::string(" " __VA_ARGS__)); \
  } while (false)

#define TANDEM_CHECK_OP_(a, b, op)                                                        \
  do {                                                                                    \
    const auto& tandem_a_ = (a);                                                          \
    const auto& tandem_b_ = (b);                                                          \
    if (!(tandem_a_ op tandem_b_)) [[unlikely]]                                           \
      ::tandem::detail::check_op_failed(__FILE__, __LINE__, #a " " #op " " #b, tandem_a_, \
                                        tandem_b_);                                       \
  } while (false)

#define TANDEM_CHECK_EQ(a, b) TANDEM_CHECK_OP_(a, b, ==)
#define TANDEM_CHECK_NE(a, b) TANDEM_CHECK_OP_(a, b, !=)
#define TANDEM_CHECK_LT(a, b) TANDEM_CHECK_OP_(a, b, <)
#define TANDEM_CHECK_LE(a, b) TANDEM_CHECK_OP_(a, b, <=)
#define TANDEM_CHECK_GT(a, b) TANDEM_CHECK_OP_(a, b, >)
#define TANDEM_CHECK_GE(a, b) TANDEM_CHECK_OP_(a, b, >=)
