// Random changes of messages, for tests of who reads them.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>

namespace tandem::testing_support {

class Damage {
 public:
  explicit Damage(std::mt19937& rng) : rng_(rng) {}

  // Changes one field somewhere in the message.
  void apply(google::protobuf::Message& message) {
    const auto* descriptor = message.GetDescriptor();
    const auto* reflection = message.GetReflection();
    const google::protobuf::FieldDescriptor* field =
        descriptor->field(below(descriptor->field_count()));
    if (field->is_map()) return;
    if (field->is_repeated()) return repeated(message, *reflection, field);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return scalar(message, field);
    if (below(4) == 0) return reflection->ClearField(&message, field);
    apply(*reflection->MutableMessage(&message, field));
  }

 private:
  using FieldDescriptor = google::protobuf::FieldDescriptor;

  int below(int n) { return static_cast<int>(rng_() % static_cast<uint32_t>(n)); }
  int32_t number() {
    static constexpr int32_t kNumbers[] = {0,
                                           1,
                                           2,
                                           3,
                                           5,
                                           19,
                                           20,
                                           -1,
                                           1 << 20,
                                           std::numeric_limits<int32_t>::max(),
                                           std::numeric_limits<int32_t>::min()};
    return kNumbers[below(std::size(kNumbers))];
  }

  void repeated(google::protobuf::Message& message, const google::protobuf::Reflection& reflection,
                const FieldDescriptor* field) {
    const int size = reflection.FieldSize(message, field);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int what = below(8);
    if (size > 0 && what == 0) return reflection.RemoveLast(&message, field);
    if (size > 1 && what == 1) return reflection.SwapElements(&message, field, 0, size - 1);
    if (is_message && size > 0 && what == 2) {
      const int i = below(size);
      reflection.AddMessage(&message, field)
          ->CopyFrom(reflection.GetRepeatedMessage(message, field, i));
    } else if (is_message) {
      apply(size > 0 && what < 7 ? *reflection.MutableRepeatedMessage(&message, field, below(size))
                                 : *reflection.AddMessage(&message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      if (size > 0 && what < 6)
        reflection.SetRepeatedInt32(&message, field, below(size), number());
      else
        reflection.AddInt32(&message, field, number());
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection.AddInt64(&message, field, below(20));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      reflection.AddString(&message, field, std::to_string(below(5)));
    }
  }

  void scalar(google::protobuf::Message& message, const FieldDescriptor* field) {
    const auto& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: return reflection.SetInt32(&message, field, number());
      case FieldDescriptor::CPPTYPE_INT64: return reflection.SetInt64(&message, field, below(20));
      case FieldDescriptor::CPPTYPE_BOOL: return reflection.SetBool(&message, field, below(2) == 0);
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection.SetString(&message, field, std::to_string(below(5)));
      default: return;
    }
  }

  std::mt19937& rng_;
};

}  // namespace tandem::testing_support
