#include "runtime/sampling/token_tree.h"

#include "base/check.h"

namespace tandem {

TokenTree::Node TokenTree::append(Node before, int32_t token, float logprob) {
  links_.push_back({before, token, length(before) + 1});
  if (keeps_logprobs_) logprobs_.push_back(logprob);
  return static_cast<Node>(links_.size() - 1);
}

void TokenTree::read(Node node, std::span<int32_t> out) const {
  TANDEM_CHECK_EQ(out.size(), static_cast<size_t>(length(node)));
  for (size_t i = out.size(); i > 0; node = at(node).before) out[--i] = at(node).token;
}

std::vector<int32_t> TokenTree::tokens(Node node) const {
  std::vector<int32_t> out(static_cast<size_t>(length(node)));
  read(node, out);
  return out;
}

std::vector<float> TokenTree::logprobs(Node node) const {
  if (!keeps_logprobs_) return {};
  std::vector<float> out(static_cast<size_t>(length(node)));
  for (size_t i = out.size(); i > 0; node = at(node).before)
    out[--i] = logprobs_[static_cast<size_t>(node)];
  return out;
}

void TokenTree::check_integrity() const {
  TANDEM_CHECK_EQ(logprobs_.size(), keeps_logprobs_ ? links_.size() : size_t{0});
  for (size_t i = 0; i < links_.size(); ++i) {
    TANDEM_CHECK(links_[i].before >= kRoot && links_[i].before < static_cast<Node>(i));
    TANDEM_CHECK_EQ(links_[i].length, length(links_[i].before) + 1);
  }
}

}  // namespace tandem
