// What models can be asked for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace tandem {

struct ModelConfig;

enum class Task : uint8_t {
  kGenerate,
  kScore,     // the likelihood of a target
  kEncode,    // the encoder's hidden states
  kClassify,  // logits of labels
  kAnswer,    // logits of where an answer begins and ends
};

class TaskSet {
 public:
  constexpr TaskSet(std::initializer_list<Task> tasks) {
    for (const Task task : tasks) bits_ |= bit(task);
  }
  constexpr bool has(Task task) const { return (bits_ & bit(task)) != 0; }
  // Whether any of them needs a decoder.
  constexpr bool need_decoder() const { return (bits_ & ~bit(Task::kEncode)) != 0; }

 private:
  static constexpr unsigned bit(Task task) { return 1u << static_cast<unsigned>(task); }
  unsigned bits_ = 0;
};

// By HuggingFace's names of classes: …ForSequenceClassification, …ForQuestionAnswering,
// …EncoderModel. Any other class generates.
TaskSet tasks_of_class(const ModelConfig& config);
// As the configuration's family has them (models/family.h).
TaskSet tasks_of(const ModelConfig& config);

}  // namespace tandem
