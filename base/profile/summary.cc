#include "base/profile/summary.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

// Sorted, apart from each other.
struct Intervals {
  std::vector<std::pair<int64_t, int64_t>> list;

  int64_t time() const {
    int64_t sum = 0;
    for (const auto& [begin, end] : list) sum += end - begin;
    return sum;
  }
  bool holds(int64_t begin, int64_t end) const {
    const auto behind = std::upper_bound(list.begin(), list.end(), std::pair(begin, INT64_MAX));
    return behind != list.begin() && end <= std::prev(behind)->second;
  }
  int64_t shared_with(const Intervals& other) const {
    int64_t sum = 0;
    for (size_t i = 0, j = 0; i < list.size() && j < other.list.size();) {
      const auto& [a, b] = list[i];
      const auto& [c, d] = other.list[j];
      sum += std::max<int64_t>(0, std::min(b, d) - std::max(a, c));
      ++(b < d ? i : j);
    }
    return sum;
  }
};

// What of `all` is not in `some`.
Intervals without(const Intervals& all, const Intervals& some) {
  Intervals out;
  size_t next = 0;
  for (auto [begin, end] : all.list) {
    while (next < some.list.size() && some.list[next].second <= begin) ++next;
    for (size_t i = next; i < some.list.size() && some.list[i].first < end; ++i) {
      if (some.list[i].first > begin) out.list.emplace_back(begin, some.list[i].first);
      begin = some.list[i].second;
    }
    if (begin < end) out.list.emplace_back(begin, end);
  }
  return out;
}

template <class Wanted>
Intervals intervals_of(std::span<const SpanEvent> events, const Wanted& wanted) {
  Intervals out;
  for (const SpanEvent& e : events)
    if (wanted(e)) out.list.emplace_back(e.begin, e.end);
  std::sort(out.list.begin(), out.list.end());
  size_t kept = 0;
  for (const auto& next : out.list) {
    if (kept > 0 && next.first <= out.list[kept - 1].second) {
      out.list[kept - 1].second = std::max(out.list[kept - 1].second, next.second);
    } else {
      out.list[kept++] = next;
    }
  }
  out.list.resize(kept);
  return out;
}

Intervals of_category(std::span<const SpanEvent> events, std::string_view category) {
  return intervals_of(events, [&](const SpanEvent& e) { return e.kind->category == category; });
}

// Products of different weights are different ops.
std::string row_name(const SpanEvent& e) {
  const SpanKind& kind = *e.kind;
  if (e.word != nullptr && kind.word == nullptr) return e.word;
  std::string name = kind.name;
  if (kind.numbers[1] != nullptr && kind.numbers[1] == std::string_view("in"))
    name += " " + std::to_string(e.numbers[1]) + "x" + std::to_string(e.numbers[2]);
  if (kind.word != nullptr && kind.word == std::string_view("kind") && e.word != nullptr)
    name += std::string(" ") + e.word;
  return name;
}

// Those within `steps`, by name.
template <class Wanted>
std::vector<RankSummary::Row> rows_of(const ProfileGroup& group, const Intervals& steps,
                                      const std::vector<Intervals>& waits, const Wanted& wanted) {
  std::map<std::string, RankSummary::Row> rows;
  std::map<std::string, Intervals> places;
  for (const SpanEvent& e : group.track(0).events()) {
    if (!wanted(e)) continue;
    if (!steps.holds(e.begin, e.end)) continue;
    const std::string name = row_name(e);
    RankSummary::Row& row = rows[name];
    row.name = name;
    ++row.calls;
    row.time += e.end - e.begin;
    places[name].list.emplace_back(e.begin, e.end);
  }
  std::vector<RankSummary::Row> out;
  for (auto& [name, row] : rows) {
    std::sort(places[name].list.begin(), places[name].list.end());
    for (const Intervals& wait : waits) row.waiting += wait.shared_with(places[name]);
    out.push_back(row);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  return out;
}

// The steps until the first span of the group was dropped.
Intervals whole_steps(const ProfileGroup& group) {
  int64_t until = INT64_MAX;
  for (int i = 0; i < group.threads(); ++i)
    if (group.track(i).dropped() > 0) until = std::min(until, group.track(i).events().back().end);
  return intervals_of(group.track(0).events(), [&](const SpanEvent& e) {
    return e.kind->category == std::string_view("step") && e.end <= until;
  });
}

RankSummary summarize_rank(const ProfileGroup& group, const Intervals& steps) {
  RankSummary out;
  out.name = group.name();
  out.span = steps.list.back().second - steps.list.front().first;
  out.time = steps.time();
  const auto first = group.track(0).events();
  const Intervals shares = of_category(first, "pool"), barriers = of_category(first, "wait");
  std::vector<Intervals> waits;
  for (int i = 0; i < group.threads(); ++i) {
    RankSummary::Thread thread{group.track(i).name(), 0, 0, 0, 0};
    const auto events = group.track(i).events();
    const Intervals& wait =
        waits.emplace_back(i == 0 ? barriers : without(steps, of_category(events, "pool")));
    const int64_t waited = wait.shared_with(steps);
    thread.for_ranks = of_category(events, "rank wait").shared_with(steps);
    thread.at_barriers = i == 0 ? waited : wait.shared_with(shares) + wait.shared_with(barriers);
    thread.for_one = waited - thread.at_barriers;
    thread.busy = out.time - waited - thread.for_ranks;
    out.threads.push_back(thread);
  }
  const auto is = [](std::string_view category) {
    return [category](const SpanEvent& e) { return e.kind->category == category; };
  };
  const auto is_op = [&](const SpanEvent& e) { return is("op")(e) || is("collective")(e); };
  out.steps = rows_of(group, steps, waits, is("step"));
  out.ops = rows_of(group, steps, waits, is_op);
  out.phases = rows_of(group, steps, waits, is("phase"));
  out.between_ops = out.time - intervals_of(first, is_op).shared_with(steps);
  const Intervals for_stages = of_category(first, "stage wait");
  out.in_pipeline = !for_stages.list.empty();
  out.for_stages = for_stages.shared_with(steps);
  return out;
}

double ratio(int64_t a, int64_t b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
}

template <class... Values>
void print(std::string& out, const char* format, Values... values) {
  char line[200];
  std::snprintf(line, sizeof line, format, values...);
  out += line;
}

void print_rows(std::string& out, const char* title, const std::vector<RankSummary::Row>& rows,
                const RankSummary& rank) {
  const auto threads = static_cast<int64_t>(rank.threads.size());
  print(out, "  %-34s %8s %10s %8s %10s %8s\n", title, "calls", "ms", "share", "us each",
        "waiting");
  for (const RankSummary::Row& row : rows)
    print(out, "  %-34s %8lld %10.2f %7.1f%% %10.1f %7.1f%%\n", row.name.c_str(),
          static_cast<long long>(row.calls), static_cast<double>(row.time) / 1e6,
          100 * ratio(row.time, rank.time), ratio(row.time, row.calls) / 1e3,
          100 * ratio(row.waiting, row.time * threads));
}

void print_rank(std::string& out, const RankSummary& rank) {
  int64_t steps = 0;
  for (const RankSummary::Row& row : rank.steps) steps += row.calls;
  print(out, "Profile of %s: %lld steps, %.1f ms in them, %.1f ms from the first to the last\n",
        rank.name.c_str(), static_cast<long long>(steps), static_cast<double>(rank.time) / 1e6,
        static_cast<double>(rank.span) / 1e6);
  print_rows(out, "step", rank.steps, rank);
  print_rows(out, "op", rank.ops, rank);
  print(out, "  %-34s %8s %10.2f %7.1f%%\n", "(between ops)", "",
        static_cast<double>(rank.between_ops) / 1e6, 100 * ratio(rank.between_ops, rank.time));
  print_rows(out, "phase", rank.phases, rank);
  print(out, "  %-34s %8s %12s %12s %12s\n", "thread", "busy", "at barriers", "for one",
        "for ranks");
  for (const RankSummary::Thread& t : rank.threads)
    print(out, "  %-34s %7.1f%% %11.1f%% %11.1f%% %11.1f%%\n", t.name.c_str(),
          100 * ratio(t.busy, rank.time), 100 * ratio(t.at_barriers, rank.time),
          100 * ratio(t.for_one, rank.time), 100 * ratio(t.for_ranks, rank.time));
  print(out,
        "  Waiting, of all threads' time in steps: %.1f%% at barriers, %.1f%% for one thread's "
        "work\n",
        100 * rank.share_at_barriers(), 100 * rank.share_for_one());
  if (!rank.in_pipeline) return;
  print(out,
        "  Idle, of the time from the first step to the last: %.1f%%: %.1f%% between steps, %.1f%% "
        "for other stages\n",
        100 * rank.share_idle(), 100 * ratio(rank.span - rank.time, rank.span),
        100 * ratio(rank.for_stages, rank.span));
}

}  // namespace

double RankSummary::share_at_barriers() const {
  int64_t sum = 0;
  for (const Thread& t : threads) sum += t.at_barriers;
  return ratio(sum, time * static_cast<int64_t>(threads.size()));
}

double RankSummary::share_for_one() const {
  int64_t sum = 0;
  for (const Thread& t : threads) sum += t.for_one;
  return ratio(sum, time * static_cast<int64_t>(threads.size()));
}

double RankSummary::share_idle() const { return ratio(span - time + for_stages, span); }

ProfileSummary summarize_profile(const Profile& profile) {
  ProfileSummary out;
  out.dropped = profile.num_dropped();
  std::map<std::string, RankSummary::Row> engine;
  std::vector<const ProfileGroup*> groups = profile.groups();  // ranks that are threads race for it
  std::sort(groups.begin(), groups.end(),
            [](const auto* a, const auto* b) { return a->number() < b->number(); });
  for (const ProfileGroup* group : groups) {
    if (group->threads() == 0) continue;
    const Intervals steps = whole_steps(*group);
    if (!steps.list.empty()) {
      out.ranks.push_back(summarize_rank(*group, steps));
      continue;
    }
    for (const SpanEvent& e : group->track(0).events()) {
      RankSummary::Row& row = engine[e.kind->name];
      row.name = e.kind->name;
      ++row.calls;
      row.time += e.end - e.begin;
    }
  }
  for (const auto& [name, row] : engine) out.engine.push_back(row);
  return out;
}

std::string format_summary(const ProfileSummary& summary) {
  std::string out;
  for (const RankSummary& rank : summary.ranks) print_rank(out, rank);
  for (const RankSummary::Row& row : summary.engine)
    print(out, "  %-34s %8lld %10.2f %8s %10.1f\n", ("engine: " + row.name).c_str(),
          static_cast<long long>(row.calls), static_cast<double>(row.time) / 1e6, "",
          ratio(row.time, row.calls) / 1e3);
  if (summary.dropped > 0)
    print(out, "  %lld spans were dropped: the figures are of the steps before\n",
          static_cast<long long>(summary.dropped));
  return out;
}

}  // namespace tandem
