// Token sequences that share their beginnings: each is its last token and the sequence before it.
// To go on from a sequence costs the same however long it is; only reading one costs its length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

class TokenTree {
 public:
  using Node = int32_t;
  static constexpr Node kRoot = -1;  // the empty sequence

  explicit TokenTree(bool keeps_logprobs = false) : keeps_logprobs_(keeps_logprobs) {}

  // The sequence `before` and one token more.
  Node append(Node before, int32_t token, float logprob);

  int length(Node node) const { return node == kRoot ? 0 : at(node).length; }
  int32_t last_token(Node node) const { return at(node).token; }  // not of kRoot
  // out: [length(node)].
  void read(Node node, std::span<int32_t> out) const;
  std::vector<int32_t> tokens(Node node) const;
  std::vector<float> logprobs(Node node) const;  // of each token; empty unless they are kept
  size_t size() const { return links_.size(); }

  void check_integrity() const;

 private:
  struct Link {
    Node before;
    int32_t token;
    int32_t length;
  };
  const Link& at(Node node) const { return links_[static_cast<size_t>(node)]; }

  bool keeps_logprobs_;
  std::vector<Link> links_;
  std::vector<float> logprobs_;  // of links_, if they are kept
};

}  // namespace tandem
