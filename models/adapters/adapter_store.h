// The adapters that a rank has beside its model. Used from the worker's thread.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/layers/adapters.h"

namespace tandem {

class AdapterStore {
 public:
  struct Limits {
    int max_adapters = 64;  // kept, besides those in use and those that stay
    int max_rank = 256;
  };
  struct Source {
    uint64_t id = 0;  // above 0
    std::string name;
    std::string path;  // a directory
  };

  // base: ModelFamily::base.
  AdapterStore(std::string base, Limits limits) : base_(std::move(base)), limits_(limits) {}

  // For Build: the layers of the model that is built with it can be changed.
  AdapterSet& set() { return set_; }
  // Of a rank with a part of the model: what the others have. Before the first load().
  void add_modules_of_others(std::vector<AdaptableModule> modules);
  // Of the whole model, none twice.
  std::vector<AdaptableModule> modules() const;
  // Behind the model's construction, on all ranks at once. Throws InputError naming adapter, file,
  // and key or tensor; then nothing has changed. stays: it is never dropped.
  void load(const Source& source, bool stays);
  // All of them are loaded behind it. Those used longest ago make room.
  void use(std::span<const Source> sources);
  bool has(uint64_t id) const { return loaded_.contains(id); }
  size_t size() const { return loaded_.size(); }

 private:
  struct Loaded {
    bool stays;
    uint64_t last_use;
  };
  void make_room(uint64_t now);

  std::string base_;
  Limits limits_;
  AdapterSet set_;
  std::vector<AdaptableModule> of_others_;
  std::map<uint64_t, Loaded> loaded_;
  uint64_t uses_ = 0;
};

}  // namespace tandem
