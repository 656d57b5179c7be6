// An EngineCore with its surroundings written out by hand: schedulers that note what they are told,
// clients that note what they get.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/engine/core/engine_core.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem::testing_support {

// A request whose sequences run until max_tokens or the token 2.
inline PreparedRequest small_request(int n = 1, int max_tokens = 8) {
  PreparedRequest request;
  request.inputs.add_encoder_prompt_token_ids(10);
  request.inputs.add_prompt_token_ids(2);
  request.params.set_n(n);
  request.params.set_max_tokens(max_tokens);
  request.params.add_eos_token_id(2);
  request.params.set_seed(1);
  return request;
}
// FakeTokenizer's token of a letter.
inline int32_t letter(char c) { return 3 + static_cast<unsigned char>(c); }

class EngineCoreDriver : public EngineOutbox {
 public:
  explicit EngineCoreDriver(const EngineCoreConfig& config = {})
      : core_(config, tokenizer_, *this), generations_(static_cast<size_t>(config.num_replicas)) {}

  EngineCore& core() { return core_; }
  double now = 100;

  void to_scheduler(int replica, proto::SchedulerCommand command) override {
    EXPECT_EQ(command.generation(), generations_.at(static_cast<size_t>(replica)));
    if (command.has_add()) first_ids_[command.add().request_id()] = command.add().first_seq_id();
    commands_[replica].push_back(std::move(command));
  }
  void to_client(ClientId client, proto::ServerMessage message) override {
    if (message.number() != 0) {  // of a remote one
      EXPECT_EQ(message.number(), ++numbers_[client]);
    }
    messages_[client].push_back(std::move(message));
  }
  void to_preparer(proto::SubmitRequest request) override {
    to_prepare.push_back(std::move(request));
  }
  void to_reader(const std::string& id) override { called.push_back(id); }
  std::vector<std::string> called;               // unread requests
  std::vector<proto::SubmitRequest> to_prepare;  // that the core waits for

  void reserve(ClientId client, const std::string& id, double timeout = 0) {
    proto::SubmitRequest submit;
    submit.set_request_id(id);
    submit.set_timeout(timeout);
    core_.reserve(client, submit, now);
    core_.check_integrity();
  }
  void submit(ClientId client, const std::string& id, PreparedRequest request = small_request(),
              double timeout = 0) {
    reserve(client, id, timeout);
    core_.prepared(id, std::move(request), now);
    core_.check_integrity();
  }
  void resume(ClientId client, const std::string& id, int tokens, int text_bytes) {
    proto::ResumeRequest resume;
    resume.set_request_id(id);
    auto& position = *resume.add_received();
    position.set_num_tokens(tokens);
    position.set_text_bytes(text_bytes);
    core_.resume(client, resume, now);
    core_.check_integrity();
  }

  // Of commands from now on.
  void expect_generation(int replica, uint64_t generation) {
    generations_.at(static_cast<size_t>(replica)) = generation;
  }
  proto::SchedulerEvent event(int replica) const {
    proto::SchedulerEvent event;
    event.set_replica(replica);
    event.set_generation(generations_.at(static_cast<size_t>(replica)));
    return event;
  }
  void up(int replica = 0) {
    ++generations_.at(static_cast<size_t>(replica));
    auto e = event(replica);
    e.mutable_up();
    core_.replica_event(e, now);
    core_.check_integrity();
  }
  void down(int replica, bool crashed, const std::vector<std::string>& in_flight = {}) {
    auto e = event(replica);
    e.mutable_down()->set_cause("gone");
    e.mutable_down()->set_crashed(crashed);
    for (const auto& id : in_flight) e.mutable_down()->add_in_flight_request_ids(id);
    core_.replica_event(e, now);
    core_.check_integrity();
  }
  // One token for sequence `index` of a request.
  proto::StepOutput output(const std::string& id, int32_t token, int index = 0,
                           float logprob = 0) const {
    proto::StepOutput step;
    auto& group = *step.add_outputs();
    group.set_request_id(id);
    group.set_seq_id(first_ids_.at(id) + index);
    auto& sample = *group.add_samples();
    sample.set_seq_id(first_ids_.at(id) + index);
    sample.set_token_id(token);
    sample.set_logprob(logprob);
    return step;
  }
  void step(int replica, const proto::StepOutput& output) {
    core_.replica_step(event(replica), output, now);
    core_.check_integrity();
  }
  void token(int replica, const std::string& id, char c, int index = 0) {
    step(replica, output(id, letter(c), index));
  }
  void tick(double seconds) {
    now += seconds;
    core_.tick(now);
    core_.check_integrity();
  }

  // "add a", "add a alone", "add a+2" (with two tokens), "abort a", "finish a": told since the last
  // call.
  std::vector<std::string> told(int replica = 0) {
    std::vector<std::string> out;
    for (const auto& c : commands_[replica]) {
      if (c.has_add()) {
        std::string text = "add " + c.add().request_id();
        int tokens = 0;
        for (const auto& seq : c.add().seqs()) tokens += seq.output_token_ids_size();
        if (tokens > 0) text += "+" + std::to_string(tokens);
        out.push_back(text + (c.add().alone() ? " alone" : ""));
      } else if (c.has_finish_sequence()) {
        out.push_back("finish " + c.finish_sequence().request_id());
      } else {
        out.push_back("abort " + c.abort_request_id());
      }
    }
    commands_[replica].clear();
    return out;
  }
  int64_t first_seq_id(const std::string& id) const { return first_ids_.at(id); }
  const proto::SchedulerCommand& last_command(int replica) { return commands_[replica].back(); }
  // Chunks received since the last call.
  std::vector<proto::RequestChunk> chunks(ClientId client) {
    std::vector<proto::RequestChunk> out;
    for (const auto& m : messages_[client])
      out.insert(out.end(), m.chunks().begin(), m.chunks().end());
    messages_[client].clear();
    return out;
  }
  // The type of the error that ended the only chunk received; "" if there was none.
  std::string error(ClientId client) {
    const auto all = chunks(client);
    EXPECT_EQ(all.size(), 1u);
    if (all.empty()) return "no chunk";
    EXPECT_EQ(all[0].finished(), all[0].has_error());
    return all[0].error().type();
  }
  uint64_t last_number(ClientId client) { return numbers_[client]; }
  void acknowledge(ClientId client) {
    core_.acknowledge(client, numbers_[client], now);
    core_.check_integrity();
  }

 private:
  FakeTokenizer tokenizer_;
  EngineCore core_;
  std::vector<uint64_t> generations_;
  std::map<int, std::vector<proto::SchedulerCommand>> commands_;
  std::map<ClientId, std::vector<proto::ServerMessage>> messages_;
  std::map<ClientId, uint64_t> numbers_;
  std::map<std::string, int64_t> first_ids_;
};

}  // namespace tandem::testing_support
