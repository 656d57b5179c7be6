// Test doubles of runners and workers that do a step's work in launch().
#pragma once

#include <deque>
#include <utility>

#include "base/check.h"
#include "runtime/execution/step_runner.h"

namespace tandem {

// Interface: StepRunner, or what derives from it. A double implements execute().
template <class Interface>
class Immediate : public Interface {
 public:
  proto::StepOutput execute(const proto::StepInput& step) override = 0;
  void launch(const proto::StepInput& step) override { answers_.push_back(execute(step)); }
  int steps_launched() const override { return static_cast<int>(answers_.size()); }
  bool ready() override { return !answers_.empty(); }
  proto::StepOutput finish() override {
    TANDEM_CHECK(!answers_.empty(), "no step was launched");
    proto::StepOutput answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

 private:
  std::deque<proto::StepOutput> answers_;
};

}  // namespace tandem
