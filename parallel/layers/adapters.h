// Adapters: changes of a model's weights for some rows of a step. Every layer that can be changed
// has a site, which knows what each adapter changes in it. The set of all sites also says whose
// rows the matrices of the moment have. Used from the worker's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/layers/build.h"
#include "parallel/layers/weights.h"
#include "parallel/shard.h"

namespace tandem {

// What an adapter changes in one module.
struct ModuleChange {
  // Low rank: W + scaling * b a. Of a linear layer a is [r, in] and b [out, r]; of a table of
  // embeddings [r, ids] and [features, r].
  std::optional<HostTensor> a, b;
  float scaling = 1.0f;
  std::optional<HostTensor> b_bias;     // [out], added with the scaling
  std::optional<HostTensor> magnitude;  // [out]: the norms of the changed rows of W (DoRA)
  // Instead: the whole weight, and its bias.
  std::optional<HostTensor> weight, bias;
};

// The changes of one adapter, by module.
class AdapterChanges {
 public:
  virtual ~AdapterChanges() = default;
  // Of the module of that scope, marked as taken; nullptr: it stays as it is.
  virtual const ModuleChange* find(const std::string& module) = 0;
};

// Which adapter each row of a matrix is for.
class AdapterRows {
 public:
  struct Group {
    uint64_t adapter;
    std::vector<int32_t> rows;  // ascending
    int64_t first = 0;          // of its rows in those of all groups, one behind another
    bool adjacent() const {
      return rows.back() - rows.front() + 1 == static_cast<int32_t>(rows.size());
    }
  };

  AdapterRows() = default;
  // The adapter of each row; 0: the base model.
  explicit AdapterRows(std::vector<uint64_t> of_row);

  int64_t size() const { return static_cast<int64_t>(of_row_.size()); }
  uint64_t of_row(int64_t row) const { return of_row_[static_cast<size_t>(row)]; }
  // The rows of each adapter, by adapter.
  const std::vector<Group>& groups() const { return groups_; }
  bool empty() const { return groups_.empty(); }  // all rows are the base model's
  AdapterRows part(int64_t begin, int64_t end) const;
  AdapterRows chosen(std::span<const int32_t> rows) const;
  // For the ops of a device: the group's rows, or as many zeros, [rows] i32. Of all groups they are
  // sent in one copy, when the first layer asks; they lie in the step's memory.
  Tensor indices(Context& ctx, const Group& group) const;
  Tensor zeros(Context& ctx, const Group& group) const;

 private:
  void send(Context& ctx) const;

  std::vector<uint64_t> of_row_;
  std::vector<Group> groups_;
  mutable Tensor sent_;  // the rows of all groups, then zeros for the largest
};

// A module that adapters may change.
struct AdaptableModule {
  std::string name;               // its scope
  int64_t rows = 0, columns = 0;  // of its weight, on all ranks together
  bool table = false;             // of embeddings; otherwise a linear layer
};

// One layer, or several that are computed in one product.
class AdapterSite {
 public:
  virtual ~AdapterSite() = default;
  virtual std::vector<AdaptableModule> modules() const = 0;
  // Keeps this rank's part of what changes here. The shapes are checked. On all ranks at once: they
  // may exchange sums.
  virtual void load(uint64_t adapter, AdapterChanges& changes) = 0;
  virtual void drop(uint64_t adapter) = 0;
};

class AdapterSet {
 public:
  // Sites live as long as a layer holds them. The latest comes first if two are one module.
  void add(const std::shared_ptr<AdapterSite>& site) { sites_.push_back(site); }
  std::vector<AdaptableModule> modules() const;
  void load(uint64_t adapter, AdapterChanges& changes);
  void drop(uint64_t adapter);

  // Of the matrices that layers get now.
  const AdapterRows& rows() const { return *rows_; }
  // While it lives, matrices have these rows.
  class Scope {
   public:
    // set: may be null; then nothing changes.
    Scope(AdapterSet* set, AdapterRows rows);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    AdapterSet* set_;
    AdapterRows own_;
    const AdapterRows* before_ = nullptr;
  };

 private:
  std::vector<std::weak_ptr<AdapterSite>> sites_;
  AdapterRows none_;
  const AdapterRows* rows_ = &none_;
};

// Rows and columns of a matrix, or a part of a vector, in f32 and in memory of its own. `t`: of a
// type that layers take.
Tensor matrix_part(const HostTensor& t, Range rows, Range columns);
Tensor vector_part(const HostTensor& t, Range part);
// Rows of x [T, n] as a matrix of their own, which shares memory if they are adjacent. `group`: of
// `rows`.
Tensor rows_of_group(Context& ctx, const Tensor& x, const AdapterRows& rows,
                     const AdapterRows::Group& group);

// For devices. x [rows of the group, n] replaces the group's rows of y [T, n], or is added to them
// in the type of activations. `group`: of `rows`.
void write_rows_of_group(Context& ctx, const Tensor& x, const Tensor& y, const AdapterRows& rows,
                         const AdapterRows::Group& group);
void add_to_rows_of_group(Context& ctx, const Tensor& x, const Tensor& y, const AdapterRows& rows,
                          const AdapterRows::Group& group);

// Of the CPU: body(i, row) for each row of the group, on the threads of the pool if there are many.
template <class Body>
void for_rows_of(Context& ctx, const AdapterRows::Group& group, const Body& body) {
  constexpr int64_t kRowsOfTask = 16;
  const auto count = static_cast<int64_t>(group.rows.size());
  const auto run = [&](int64_t task) {
    for (int64_t i = task * kRowsOfTask; i < std::min(count, (task + 1) * kRowsOfTask); ++i)
      body(i, group.rows[static_cast<size_t>(i)]);
  };
  const int64_t tasks = (count + kRowsOfTask - 1) / kRowsOfTask;
  if (tasks <= 2)
    for (int64_t task = 0; task < tasks; ++task) run(task);
  else
    ctx.pool().run(tasks, [&](int64_t task, int) { run(task); });
}

}  // namespace tandem
