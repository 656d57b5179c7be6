// A block manager without blocks: tables are lists of logical pages, and every count is taken anew
// by walking all tables. What BlockManager does in O(1) must agree with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"

namespace tandem::testing_support {

class NaiveBlockManager {
 public:
  struct Page {
    int64_t content;  // changes with every write; copies have the content of their source
  };
  using Pages = std::vector<std::shared_ptr<Page>>;
  struct Table {
    Pages pages;
    bool on_host = false;
  };

  NaiveBlockManager(int block_size, int device, int host, int watermark_blocks)
      : block_size_(block_size), device_(device), host_(host), watermark_(watermark_blocks) {}

  int free_device() const { return device_ - static_cast<int>(pages_on(false).size()); }
  int free_host() const { return host_ - static_cast<int>(pages_on(true).size()); }

  int blocks(int tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  int blocks_to_start(const SequenceGroup& group) const {
    int sum = blocks(group.encoder_seq().length());
    for (const Sequence* seq : group.unfinished_seqs())
      sum += blocks(seq->length()) - (group.waits_for_fork(*seq) ? shared(group) : 0);
    return sum;
  }
  AllocStatus fits(int needed) const {
    if (needed > device_) return AllocStatus::kNever;
    const int kept = free_device() == device_ ? 0 : watermark_;
    return needed + kept <= free_device() ? AllocStatus::kOk : AllocStatus::kLater;
  }

  // Pages of sequence 0 that forks share.
  int shared(const SequenceGroup& group) const {
    const int length = group.seqs()[0]->length();
    return group.searches_ahead() ? length / block_size_ : blocks(length);
  }
  // With pages that hold the beginnings already: of sequences, by id, and the cross table.
  void allocate(const SequenceGroup& group, const std::map<int64_t, Pages>& found = {},
                const Pages& found_cross = {}) {
    for (const Sequence* seq : group.unfinished_seqs()) {
      Pages& pages = self[seq->seq_id()].pages;
      if (const auto it = found.find(seq->seq_id()); it != found.end()) pages = it->second;
      if (group.waits_for_fork(*seq)) {
        const Pages& first = self.at(group.seqs()[0]->seq_id()).pages;
        pages.assign(first.begin(), first.begin() + shared(group));
      }
      extend(pages, blocks(seq->length()));
    }
    Pages& pages = cross[group.request_id()].pages = found_cross;
    extend(pages, blocks(group.encoder_seq().length()));
  }

  int blocks_to_append(const Sequence& seq, int tokens) const {
    const Table& table = self.at(seq.seq_id());
    int needed = 0;
    for (int i = 0; i < blocks(tokens); ++i) {
      if (i >= static_cast<int>(table.pages.size()))
        ++needed;
      else if ((i + 1) * block_size_ > seq.num_computed_tokens() && mentions(table.pages[i]) > 1)
        ++needed;
    }
    return needed;
  }
  // Writes the tokens [num_computed, tokens) as well.
  void append(const Sequence& seq, int tokens) {
    Table& table = self.at(seq.seq_id());
    for (int i = 0; i < blocks(tokens); ++i) {
      if (i >= static_cast<int>(table.pages.size()))
        table.pages.push_back(new_page());
      else if ((i + 1) * block_size_ > seq.num_computed_tokens() && mentions(table.pages[i]) > 1)
        table.pages[i] = std::make_shared<Page>(*table.pages[i]);
    }
    for (int i = seq.num_computed_tokens() / block_size_; i < blocks(tokens); ++i)
      table.pages[i]->content = next_content_++;
  }

  void fork(const Sequence& parent, const Sequence& child) {
    self[child.seq_id()] = self.at(parent.seq_id());
  }
  void adopt(const SequenceGroup& group, const std::vector<int>& parents, int full) {
    const auto before = self;
    for (size_t i = 0; i < parents.size(); ++i) {
      const auto& parent = *group.seqs()[static_cast<size_t>(parents[i])];
      std::copy_n(before.at(parent.seq_id()).pages.begin(), full,
                  self.at(group.seqs()[i]->seq_id()).pages.begin());
    }
  }
  // Pages of the group, shared ones once.
  int num_blocks(const SequenceGroup& group) const {
    std::set<const Page*> pages;
    for (const Table* table : tables(group))
      for (const auto& page : table->pages) pages.insert(page.get());
    return static_cast<int>(pages.size());
  }
  // The group's tables move; other groups keep what they share with it.
  void set_on_host(const SequenceGroup& group, bool on_host) {
    std::map<const Page*, std::shared_ptr<Page>> moved;
    for (const Table* table : tables(group)) {
      auto& own = *const_cast<Table*>(table);
      own.on_host = on_host;
      for (auto& page : own.pages) {
        auto& copy = moved[page.get()];
        if (!copy) copy = std::make_shared<Page>(*page);
        page = copy;
      }
    }
  }
  void reset() {
    self.clear();
    cross.clear();
  }

  std::vector<const Table*> tables(const SequenceGroup& group) const {
    std::vector<const Table*> out;
    for (const auto& seq : group.seqs())
      if (const auto it = self.find(seq->seq_id()); it != self.end()) out.push_back(&it->second);
    if (const auto it = cross.find(group.request_id()); it != cross.end())
      out.push_back(&it->second);
    return out;
  }

  std::map<int64_t, Table> self;
  std::map<std::string, Table> cross;

 private:
  std::shared_ptr<Page> new_page() { return std::make_shared<Page>(Page{next_content_++}); }
  void extend(Pages& pages, int n) {
    while (static_cast<int>(pages.size()) < n) pages.push_back(new_page());
  }
  std::vector<const Table*> all_tables() const {
    std::vector<const Table*> out;
    for (const auto& [id, table] : self) out.push_back(&table);
    for (const auto& [id, table] : cross) out.push_back(&table);
    return out;
  }
  std::set<const Page*> pages_on(bool host) const {
    std::set<const Page*> pages;
    for (const Table* table : all_tables())
      if (table->on_host == host)
        for (const auto& page : table->pages) pages.insert(page.get());
    return pages;
  }
  int mentions(const std::shared_ptr<Page>& page) const {
    int n = 0;
    for (const Table* table : all_tables())
      n += static_cast<int>(std::count(table->pages.begin(), table->pages.end(), page));
    return n;
  }

  int block_size_, device_, host_, watermark_;
  int64_t next_content_ = 1;
};

}  // namespace tandem::testing_support
