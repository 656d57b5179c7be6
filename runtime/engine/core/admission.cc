// See admission.h. The expected wait is that of Little's law: work in the house over work done in a
// second. What is done of the work in the house counts too, because those behind a newcomer share
// the steps with it: then (requests) / (requests a second) is the time that each spends there.

#include "runtime/engine/core/admission.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {
namespace {

// Seconds after which a measurement counts a third (1/e): as long as requests take, within these.
constexpr double kShortMemory = 3, kLongMemory = 60;
constexpr double kLeastTime = 0.2;  // seconds that make a rate
// An encoder's token passes no cross-attention and no vocabulary.
constexpr double kEncoderToken = 0.5;
constexpr double kFirstGuess = 64;   // tokens, of a request before any is known
constexpr double kShare = 1.0 / 32;  // of the newest in means

void take_into(double& mean, double value) {
  mean = mean == 0 ? value : mean + kShare * (value - mean);
}

}  // namespace

RequestWork work_of(const proto::EncoderDecoderInputs& inputs,
                    const proto::SamplingParams& params) {
  RequestWork out;
  out.input = kEncoderToken * encoder_length(inputs);
  if (params.has_pooling()) {
    out.input += static_cast<double>(inputs.prompt_token_ids_size());
    return out;
  }
  const bool beams = uses_beams(params);
  out.sequences = beams ? params.num_beams() : num_sequences(params);
  // Beams compute their prompt once, samples once each.
  out.input += static_cast<double>(inputs.prompt_token_ids_size()) * (beams ? 1 : out.sequences);
  out.output = params.max_tokens();
  out.tokens_a_step = beams ? out.sequences : 1;
  return out;
}

std::string Admission::Refusal::message() const {
  if (wait == 0)
    return "the server has many requests, and does not know yet how long they take; try again "
           "later";
  char text[200];
  std::snprintf(text, sizeof(text),
                by_deadline ? "timeout: the request would wait for about %.1f s, longer than its "
                              "timeout of %.1f s"
                            : "the request would wait for about %.1f s, longer than %.1f s "
                              "(--max-queue-time); try again later",
                wait, bound);
  return text;
}

void Admission::Rate::pass(double seconds, double memory) {
  const double left = std::exp(-seconds / memory);
  work *= left;
  time = time * left + seconds;
}

bool Admission::Rate::known() const { return time >= kLeastTime && work > 0; }

void Admission::pass(double now) {
  if (now <= now_) return;
  if (sequences_ > 0) {
    Rate& rate = current();
    const double stay = rate.known() ? work_ / rate.value() : 0;
    rate.pass(now - now_, std::clamp(stay, kShortMemory, kLongMemory));
  }
  now_ = now;
}

const Admission::Rate* Admission::best() const {
  return full_.known() ? &full_ : partial_.known() ? &partial_ : nullptr;
}

// Sequences that come in whatever is there.
int Admission::taken_anyway() const {
  if (full_.known()) return config_.batch;
  const int unmeasured = std::max(config_.batch, config_.most_unmeasured);
  return partial_.known() ? std::min(2 * config_.batch, unmeasured) : unmeasured;
}

double Admission::work_per_second(double now) {
  pass(now);
  const Rate* rate = best();
  return rate == nullptr ? 0 : rate->value();
}

double Admission::expected_wait(double work_before, double now) {
  pass(now);
  const Rate* rate = best();
  return rate == nullptr || sequences_ < config_.batch ? 0 : work_before / rate->value();
}

double Admission::until_next_end(double now) {
  pass(now);
  const Rate* rate = best();
  return rate == nullptr || requests_ == 0 ? 1 : work_ / requests_ / rate->value();
}

std::optional<Admission::Refusal> Admission::refusal(double timeout, double work_before,
                                                     double now) {
  pass(now);
  const double most = config_.max_queue_time;
  if ((most <= 0 && timeout <= 0) || sequences_ < taken_anyway()) return std::nullopt;
  const Rate* rate = best();
  Refusal out;
  out.by_deadline = most <= 0 || (timeout > 0 && timeout < most);
  out.bound = out.by_deadline ? timeout : most;
  if (rate == nullptr) {
    // So many at once, and nothing has come of any: nobody can say how long it takes.
    if (most <= 0) return std::nullopt;
    out.retry_after = 1;
    return out;
  }
  out.wait = work_before / rate->value();
  if (out.wait <= out.bound) return std::nullopt;
  // Room is there when so much has been done, or when less than a batch is left.
  const double surplus = sequences_ - taken_anyway() + 1;
  out.retry_after = std::min(out.wait - out.bound, out.wait * surplus / sequences_);
  return out;
}

void Admission::enter(Ticket& ticket, double now) {
  pass(now);
  ticket.work = mean_work_ > 0 ? mean_work_ : kFirstGuess;
  ticket.sequences = 1;
  work_ += ticket.work;
  sequences_ += ticket.sequences;
  ++requests_;
}

void Admission::size(Ticket& ticket, const RequestWork& work, double now) {
  pass(now);
  // Few use all that they may: a bound that nobody meant would outweigh those who ask for less.
  const double output = mean_output_ > 0 ? std::min(work.output, 2 * mean_output_) : work.output;
  work_ -= ticket.work;
  sequences_ += work.sequences - ticket.sequences;
  ticket.input = work.input;
  ticket.work = work.input + work.sequences * output;
  ticket.sequences = work.sequences;
  ticket.tokens_a_step = work.tokens_a_step;
  work_ += ticket.work;
  take_into(mean_work_, ticket.work);
}

void Admission::credit(Ticket& ticket, double done) {
  done = std::min(done, ticket.work);
  if (done <= ticket.done) return;
  current().work += done - ticket.done;
  ticket.done = done;
}

void Admission::progress(Ticket& ticket, int tokens, double now) {
  pass(now);
  credit(ticket, ticket.input + tokens * ticket.tokens_a_step);
}

void Admission::leave(Ticket& ticket, bool completed, double now) {
  pass(now);
  if (completed) {
    const double output = ticket.done - ticket.input;
    if (output > 0) take_into(mean_output_, output / ticket.sequences);
    credit(ticket, ticket.work);
  }
  work_ -= ticket.work;
  sequences_ -= ticket.sequences;
  --requests_;
  TANDEM_CHECK_GE(requests_, 0);
  if (requests_ == 0) work_ = 0;  // what rounding has left
  ticket = Ticket();
}

}  // namespace tandem
