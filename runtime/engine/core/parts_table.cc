#include "runtime/engine/core/parts_table.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace tandem {

void PartsTable::begin(RequestRecord& record, std::unique_ptr<CompositeState> state, double now) {
  record.composite = std::move(state);
  record.stage = RequestStage::kParts;
  records_.begin_sound(record.composite->seconds());
  intake_.split(record, now);
  add_parts(record, now);
}

void PartsTable::go_on(double now) {
  while (RequestRecord* part = ends_.next_ended_part()) {
    RequestRecord& record = *part->parent;
    record.parts.erase(part->part);
    take(record, *part, now);
    ends_.erase(*part);
    if (record.stage == RequestStage::kParts) add_parts(record, now);
  }
}

void PartsTable::take(RequestRecord& record, const RequestRecord& part, double now) {
  if (part.error) {
    record.error = part.error;
    ends_.finish(record, now);
    return;
  }
  try {
    record.composite->take(part.part, part.state->output(), now);
  } catch (const InputError& error) {
    ends_.fail(record, error, now);
  }
}

void PartsTable::add_parts(RequestRecord& record, double now) {
  try {
    for (PartRequest& request : record.composite->next()) add_part(record, std::move(request), now);
  } catch (const InputError& error) {
    return ends_.fail(record, error, now);
  }
  if (record.composite->finished()) return ends_.finish(record, now);
  streams_.note_news(record);
}

// Under an id that nobody else's request has.
void PartsTable::add_part(RequestRecord& record, PartRequest request, double now) {
  proto::SubmitRequest submit;
  do {
    submit.set_request_id(record.id + "#" + std::to_string(record.num_parts++));
  } while (records_.find(submit.request_id()) != nullptr ||
           intake_.is_being_prepared(submit.request_id()));
  RequestRecord& part = records_.add_part(record, request.number, submit, now);
  part.prefix_tokens = request.prefix_tokens;
  intake_.reserve(part, now);
  *submit.mutable_prompt() = std::move(request.prompt);
  *submit.mutable_options() = std::move(request.options);
  outbox_.to_preparer(std::move(submit));
}

void PartsTable::check_integrity(const std::vector<const RequestRecord*>& records) const {
  size_t parts = 0, owned = 0;
  double seconds = 0;
  for (const RequestRecord* record : records) {
    owned += record->parts.size();
    if (record->composite) record->composite->check_integrity();
    if (record->stage == RequestStage::kParts) {
      TANDEM_CHECK(record->composite && !record->composite->finished() && !record->parts.empty());
      seconds += record->composite->seconds();
    }
    for (const auto& [number, part] : record->parts)
      TANDEM_CHECK(part->parent == record && part->part == number);
    if (record->parent == nullptr) continue;
    ++parts;
    TANDEM_CHECK(record->parent->stage == RequestStage::kParts && !record->client);
    TANDEM_CHECK(record->stage != RequestStage::kDone);
  }
  TANDEM_CHECK_EQ(parts, owned);
  TANDEM_CHECK_EQ(parts, records_.num_parts());
  TANDEM_CHECK(std::abs(seconds - records_.sound_seconds()) < 1e-6 * (1 + seconds));
}

}  // namespace tandem
