// A document under way: its parts, and the text that their answers make. One thread; no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/states/composite_state.h"
#include "runtime/request/document_plan.h"

namespace tandem {

class DocumentState final : public CompositeState {
 public:
  // Parts that have no answer yet, at most: enough for any batch.
  static constexpr size_t kMostUnanswered = 256;

  // Times in seconds of one clock.
  DocumentState(const std::string& request_id, PreparedDocument document, double arrival_time);

  std::vector<PartRequest> next() override;
  void take(int number, const proto::RequestOutput& answer, double now) override;
  void stop() override;
  // Text by part, in the document's order. Its inputs are those of all parts, once it has finished.
  // Of a summary: the last round's.
  const proto::RequestOutput& output() const override { return output_; }
  void check_integrity() const override;

 private:
  void append(const DocumentPart& part, const proto::RequestOutput& answer);
  void end_round(double now);
  void finish(double now);

  PreparedDocument document_;  // the parts are those of this round
  CompositeTimes times_;
  int first_number_ = 0;                                      // of this round
  size_t sent_ = 0, answered_ = 0, appended_ = 0;             // of its parts
  std::vector<std::optional<proto::RequestOutput>> answers_;  // of its parts; let go once appended
  size_t num_chunks_ = 0;                                     // of the first round of a summary
  bool cut_short_ = false;                                    // a part ended by its length
  google::protobuf::RepeatedField<int32_t> source_ids_;  // of all parts that have been answered
  proto::RequestOutput output_;
};

}  // namespace tandem
