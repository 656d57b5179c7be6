// Expressions → places, from the end of each rule to its start (grammar_program.h).
//
// A call in a rule's last place needs no return: the called rule's text ends where the caller's
// does. Such a rule is built once more, with the caller's end as its own. So a list that calls
// itself for its rest, as grammars write lists, is a loop.
#include "text/grammar/grammar_program.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

constexpr size_t kMaxPlaces = 200000;
constexpr int64_t kMaxWork = 1000000;  // expressions built, each as often as it is repeated

using Kind = GrammarProgram::Kind;

// Fixpoint over places: `holds(place)` may turn true once what it depends on does.
template <class Dependencies, class Holds, class Mark>
void spread(size_t count, const Dependencies& dependencies, const Holds& holds, const Mark& mark) {
  std::vector<int32_t> first(count + 1), users;
  for (size_t i = 0; i < count; ++i)
    dependencies(i, [&](int32_t on) { ++first[static_cast<size_t>(on) + 1]; });
  for (size_t i = 0; i < count; ++i) first[i + 1] += first[i];
  users.resize(static_cast<size_t>(first[count]));
  std::vector<int32_t> filled(first.begin(), first.end() - 1);
  for (size_t i = 0; i < count; ++i)
    dependencies(i, [&](int32_t on) {
      users[static_cast<size_t>(filled[static_cast<size_t>(on)]++)] = static_cast<int32_t>(i);
    });
  std::vector<bool> done(count);
  std::vector<size_t> todo;
  const auto look = [&](size_t i) {
    if (done[i] || !holds(i)) return;
    done[i] = true;
    mark(i);
    todo.push_back(i);
  };
  for (size_t i = 0; i < count; ++i) look(i);
  while (!todo.empty()) {
    const size_t i = todo.back();
    todo.pop_back();
    for (int32_t k = first[i]; k < first[i + 1]; ++k)
      look(static_cast<size_t>(users[static_cast<size_t>(k)]));
  }
}

}  // namespace

class GrammarCompiler {
 public:
  GrammarCompiler(const Grammar& grammar, const icu::UnicodeSet* writable, GrammarProgram& out)
      : grammar_(grammar), out_(out) {
    out_.rule_starts_.assign(grammar.num_rules(), -1);
    add_classes(writable);
    const int32_t end = add({.kind = Kind::kEnd, .index = GrammarProgram::kWhole});
    out_.start_ = build(grammar.root(), end, end);
    while (!waiting_.empty()) {
      const Waiting rule = waiting_.front();
      waiting_.pop_front();
      std::vector<int32_t> ways;
      if (const Grammar::Ref body = grammar.body(rule.rule); body >= 0)
        ways.push_back(build(body, rule.end, rule.end));
      set_ways(rule.start, std::move(ways));
    }
  }

 private:
  struct Waiting {
    int32_t rule, start, end;
  };

  void add_classes(const icu::UnicodeSet* writable) {
    for (const Grammar::CharacterClass& all : grammar_.classes()) {
      if (writable == nullptr) {
        classes_.push_back(out_.characters_.add(all));
        continue;
      }
      icu::UnicodeSet set;
      for (const auto& [first, last] : all)
        set.add(static_cast<UChar32>(first), static_cast<UChar32>(last));
      set.retainAll(*writable);
      Grammar::CharacterClass left;
      for (int32_t i = 0; i < set.getRangeCount(); ++i)
        left.push_back({static_cast<char32_t>(set.getRangeStart(i)),
                        static_cast<char32_t>(set.getRangeEnd(i))});
      classes_.push_back(out_.characters_.add(left));
    }
    if (out_.characters_.size() > kMaxPlaces) throw grammar_explodes("too many characters");
  }

  int32_t add(GrammarProgram::Place place) {
    if (out_.places_.size() + out_.ways_.size() >= kMaxPlaces)
      throw grammar_explodes("more than " + std::to_string(kMaxPlaces) + " places");
    out_.places_.push_back(place);
    return static_cast<int32_t>(out_.places_.size()) - 1;
  }

  void set_ways(int32_t split, std::vector<int32_t> ways) {
    auto& place = out_.places_[static_cast<size_t>(split)];
    place.index = static_cast<int32_t>(out_.ways_.size());
    place.num_ways = static_cast<int32_t>(ways.size());
    out_.ways_.insert(out_.ways_.end(), ways.begin(), ways.end());
  }

  int32_t add_split(std::vector<int32_t> ways) {
    if (ways.size() == 1) return ways[0];
    const int32_t split = add({.kind = Kind::kSplit});
    set_ways(split, std::move(ways));
    return split;
  }

  // The place before the expression, if `to` is the one behind it. `end`: of the rule.
  int32_t build(Grammar::Ref ref, int32_t to, int32_t end) {
    if (++work_ > kMaxWork) throw grammar_explodes("too many repetitions");
    const Grammar::Expression& e = grammar_.expression(ref);
    switch (e.kind) {
      case Grammar::Kind::kCharacters:
        return add({.kind = Kind::kCharacter,
                    .index = classes_[static_cast<size_t>(e.index)],
                    .next = to});
      case Grammar::Kind::kSequence:
        for (auto it = e.parts.rbegin(); it != e.parts.rend(); ++it) to = build(*it, to, end);
        return to;
      case Grammar::Kind::kAlternatives: {
        std::vector<int32_t> ways;
        for (const Grammar::Ref part : e.parts) ways.push_back(build(part, to, end));
        return add_split(std::move(ways));
      }
      case Grammar::Kind::kRepeat: return build_repeat(e, to, end);
      case Grammar::Kind::kRule: return to == end ? jump(e.index, end) : call(e.index, to);
    }
    return to;
  }

  int32_t build_repeat(const Grammar::Expression& e, int32_t to, int32_t end) {
    const Grammar::Ref part = e.parts[0];
    if (e.most < 0) {
      const int32_t loop = add({.kind = Kind::kSplit});
      const int32_t before = build(part, loop, end);
      set_ways(loop, {before, to});
      to = loop;
    } else {
      // Whoever leaves early leaves for good.
      int32_t next = to;
      for (int64_t i = e.least; i < e.most; ++i) next = add_split({build(part, next, end), to});
      to = next;
    }
    for (int64_t i = 0; i < e.least; ++i) to = build(part, to, end);
    return to;
  }

  int32_t call(int32_t rule, int32_t to) {
    int32_t& start = out_.rule_starts_[static_cast<size_t>(rule)];
    if (start < 0) {
      const int32_t end = add({.kind = Kind::kEnd, .index = rule});
      start = add({.kind = Kind::kSplit});
      jumps_[{rule, end}] = start;
      waiting_.push_back({rule, start, end});
    }
    return add({.kind = Kind::kCall, .index = rule, .next = to});
  }

  int32_t jump(int32_t rule, int32_t end) {
    const auto [it, is_new] = jumps_.try_emplace({rule, end}, -1);
    if (is_new) {
      it->second = add({.kind = Kind::kSplit});
      waiting_.push_back({rule, it->second, end});
    }
    return it->second;
  }

  const Grammar& grammar_;
  GrammarProgram& out_;
  std::vector<int32_t> classes_;
  std::map<std::pair<int32_t, int32_t>, int32_t> jumps_;  // by rule, and the end that it has
  std::deque<Waiting> waiting_;
  int64_t work_ = 0;
};

GrammarProgram::GrammarProgram(const Grammar& grammar, const icu::UnicodeSet* writable) {
  GrammarCompiler(grammar, writable, *this);
  find_completing();
  find_empty();
  find_byte_kinds();
}

void GrammarProgram::find_completing() {
  const auto dependencies = [&](size_t i, const auto& on) {
    const Place& p = places_[i];
    if (p.kind == Kind::kSplit)
      for (const int32_t way : ways(p)) on(way);
    if (p.kind == Kind::kCharacter || p.kind == Kind::kCall) on(p.next);
    if (p.kind == Kind::kCall) on(start_of(p.index));
  };
  const auto holds = [&](size_t i) {
    const Place& p = places_[i];
    const auto done = [&](int32_t at) { return place(at).completes; };
    switch (p.kind) {
      case Kind::kEnd: return true;
      case Kind::kSplit: return std::any_of(ways(p).begin(), ways(p).end(), done);
      case Kind::kCharacter: return p.index != CharacterBytes::kNowhere && done(p.next);
      case Kind::kCall: return done(p.next) && done(start_of(p.index));
    }
    return false;
  };
  spread(places_.size(), dependencies, holds, [&](size_t i) { places_[i].completes = true; });
}

void GrammarProgram::find_empty() {
  std::vector<bool> empty(places_.size());
  const auto dependencies = [&](size_t i, const auto& on) {
    const Place& p = places_[i];
    if (p.kind == Kind::kSplit)
      for (const int32_t way : ways(p)) on(way);
    if (p.kind != Kind::kCall) return;
    on(p.next);
    on(start_of(p.index));
  };
  const auto holds = [&](size_t i) {
    const Place& p = places_[i];
    const auto done = [&](int32_t at) { return bool(empty[static_cast<size_t>(at)]); };
    switch (p.kind) {
      case Kind::kEnd: return true;
      case Kind::kSplit: return std::any_of(ways(p).begin(), ways(p).end(), done);
      case Kind::kCharacter: return false;
      case Kind::kCall: return done(p.next) && done(start_of(p.index));
    }
    return false;
  };
  spread(places_.size(), dependencies, holds, [&](size_t i) { empty[i] = true; });
  for (Place& p : places_)
    if (p.kind == Kind::kCall) p.empty = empty[static_cast<size_t>(start_of(p.index))];
}

void GrammarProgram::find_byte_kinds() {
  std::array<bool, 257> begins{};
  for (size_t i = 0; i < characters_.size(); ++i)
    for (const CharacterBytes::Edge& edge : characters_.edges(static_cast<int32_t>(i))) {
      begins[edge.first] = true;
      begins[size_t{edge.last} + 1] = true;
    }
  int kind = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++kind;
    byte_kinds_[byte] = static_cast<uint8_t>(kind);
    kind_bytes_[static_cast<size_t>(kind)] = static_cast<uint8_t>(byte);
  }
  num_byte_kinds_ = kind + 1;
}

size_t GrammarProgram::size() const {
  return places_.size() * sizeof(Place) + ways_.size() * sizeof(int32_t);
}

}  // namespace tandem
