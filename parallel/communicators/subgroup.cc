// A round of a subgroup is a piece to each of its other ranks, and one from each. More pieces
// than two may lie between two ranks, and a rank is at most one round ahead of another, so all can
// send first.
#include "parallel/communicators/subgroup.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "parallel/communicators/round_communicator.h"

namespace tandem {
namespace {

class SubgroupCommunicator final : public RoundCommunicator {
 public:
  SubgroupCommunicator(std::shared_ptr<Communicator> group, int first, int count, size_t chunk)
      : RoundCommunicator(group->rank() - first, count, chunk),
        group_(std::move(group)),
        first_(first),
        parts_(static_cast<size_t>(count) * chunk) {}

  size_t piece_bytes() const override { return chunk_bytes(); }
  const char* transport() const override { return group_->transport(); }
  void abort() override { group_->abort(); }

 protected:
  void check_aborted(Collective) override {}  // the group's calls look

  Parts exchange(const Round& round) override {
    const auto at = [&](int r) { return parts_.data() + static_cast<size_t>(r) * chunk_bytes(); };
    round.copy_mine(at(rank()));
    const bool all_give = round.root < 0;
    for (int r = 0; r < size(); ++r)
      if (r != rank() && (all_give || round.root == rank()))
        group_->send(bytes_of(at(rank()), round.part), first_ + r);
    for (int r = 0; r < size(); ++r)
      if (r != rank() && (all_give || round.root == r))
        group_->receive(bytes_of(at(r), round.part), first_ + r);
    return {parts_.data(), chunk_bytes()};
  }

  void send_piece(const Piece& piece) override {
    group_->send(bytes_of(piece.data, piece.bytes), first_ + piece.peer);
  }
  void receive_piece(const Piece& piece) override {
    group_->receive(bytes_of(piece.data, piece.bytes), first_ + piece.peer);
  }

 private:
  static Tensor bytes_of(std::byte* data, size_t bytes) {
    return Tensor::borrow(data, {static_cast<int64_t>(bytes)}, DType::kU8);
  }

  std::shared_ptr<Communicator> group_;
  int first_;
  std::vector<std::byte> parts_;
};

}  // namespace

std::unique_ptr<Communicator> make_subgroup(std::shared_ptr<Communicator> group, int first,
                                            int count) {
  TANDEM_CHECK(first >= 0 && count >= 1 && first + count <= group->size());
  TANDEM_CHECK(group->rank() >= first && group->rank() < first + count);
  if (count == 1) return make_local_communicator();
  const auto* messages = dynamic_cast<const RoundCommunicator*>(group.get());
  TANDEM_CHECK(messages != nullptr, "a subgroup of ranks that send no messages");
  const size_t chunk = messages->piece_bytes();
  return std::make_unique<SubgroupCommunicator>(std::move(group), first, count, chunk);
}

}  // namespace tandem
