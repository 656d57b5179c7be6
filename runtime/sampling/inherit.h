// Beams that go on from one another.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace tandem {

// items[i] becomes what items[parents[i]] was. What one goes on with moves; a copy is made only for
// each further one of the same parent.
template <class T>
void inherit(std::vector<T>& items, std::span<const int> parents) {
  std::vector<int> children(items.size());
  for (const int parent : parents) ++children[static_cast<size_t>(parent)];
  std::vector<T> out;
  out.reserve(parents.size());
  for (const int index : parents) {
    const auto parent = static_cast<size_t>(index);
    if (--children[parent] == 0)
      out.push_back(std::move(items[parent]));
    else
      out.push_back(items[parent]);
  }
  items = std::move(out);
}

}  // namespace tandem
