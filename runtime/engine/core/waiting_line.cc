// See waiting_line.h.
#include "runtime/engine/core/waiting_line.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
// Of what is computed, for those who have waited longer than the others do.
constexpr double kSteadyShare = 0.125;
// Whoever is served before a client leaves with this likelihood is young ...
constexpr double kSure = 0.95;
// ... for this part of that time, so that what takes longer than expected is still in time.
constexpr double kYoungPart = 0.5;
constexpr double kSteady = 0.75;              // likelihood with which older ones are served in time
constexpr double kShareOfService = 1.0 / 32;  // of the newest in means
constexpr double kTimeoutRatio = 1.1;
// Of its time, by which an answer must be there before its client leaves: answers have a way to go,
// and who leaves is seen late.
constexpr double kMargin = 0.1;

}  // namespace

void WaitingLine::note_service(double seconds, bool completed) {
  if (!completed && (mean_service_ == 0 || seconds < mean_service_)) return;
  if (mean_service_ == 0) {
    mean_service_ = seconds;
    service_deviation_ = seconds / 4;
    return;
  }
  service_deviation_ += kShareOfService * (std::abs(seconds - mean_service_) - service_deviation_);
  mean_service_ += kShareOfService * (seconds - mean_service_);
}

// --- Places --------------------------------------------------------------------------------------

WaitingLine::LaneKey WaitingLine::lane_of(const LinePlace& place) const {
  LaneKey key{0, 0};
  const double work = std::max(place.work, place.client_work);
  if (pace_.work_of_a_request > 0 && work >= 4 * pace_.work_of_a_request)
    key.first = static_cast<int>(std::min(40.0, std::log2(work / pace_.work_of_a_request)));
  // 0 is "nothing is said": a logarithm that would be is counted with the one above.
  if (place.timeout > 0) {
    key.second = static_cast<int>(
        std::floor(std::clamp(std::log(place.timeout) / std::log(kTimeoutRatio), -200.0, 200.0)));
    if (key.second >= 0) ++key.second;
  }
  return key;
}

void WaitingLine::add(LinePlace& place) {
  TANDEM_CHECK(!place.waiting);
  place.waiting = true;
  Level& level = levels_[place.priority];
  if (place.begun) {
    level.begun.insert(&place);
  } else {
    place.lane = lane_of(place);
    const auto [lane, added] = level.lanes.try_emplace(place.lane);
    if (added) lane->second.ages = known_ages(place.lane);
    lane->second.places.insert(&place);
  }
  ++size_;
  work_ += place.work;
}

void WaitingLine::remove(LinePlace& place) {
  TANDEM_CHECK(place.waiting);
  place.waiting = false;
  const auto level = levels_.find(place.priority);
  if (place.begun) {
    TANDEM_CHECK_EQ(level->second.begun.erase(&place), size_t{1});
  } else {
    const auto lane = level->second.lanes.find(place.lane);
    TANDEM_CHECK_EQ(lane->second.places.erase(&place), size_t{1});
    if (lane->second.places.empty()) level->second.lanes.erase(lane);
  }
  if (level->second.begun.empty() && level->second.lanes.empty()) levels_.erase(level);
  --size_;
  work_ = size_ == 0 ? 0 : work_ - place.work;
  if (choice_.place == &place) choice_ = {};
}

void WaitingLine::take(LinePlace& place) {
  TANDEM_CHECK(choice_.place == &place, "only the first is taken");
  const Choice choice = choice_;
  if (choice.kind != Kind::kBegun && !plain_) {
    young_part_ += kShareOfService * ((choice.kind == Kind::kYoung ? 1 : 0) - young_part_);
    // Nobody owes anything to those who are not there.
    if (!choice.both)
      owed_ = std::clamp(owed_, -place.work, 0.0);
    else
      owed_ += choice.kind == Kind::kSteady ? -(1 - kSteadyShare) * place.work
                                            : kSteadyShare * place.work;
  }
  remove(place);
}

bool WaitingLine::LaneAges::is_steady(double age) const {
  return std::any_of(steady.begin(), steady.end(), [age](const Ages& a) { return a.have(age); });
}

// --- Who is next ---------------------------------------------------------------------------------

LinePlace* WaitingLine::first(double now) {
  refresh(now);
  choice_ = levels_.empty() ? Choice() : choose(levels_.begin()->second, now);
  return choice_.place;
}

LinePlace* WaitingLine::first_to_call(double now) {
  refresh(now);
  choice_ = {};
  for (const auto& [priority, level] : levels_) {
    if (level.lanes.empty()) continue;
    choice_ = choose_waiting(level, now);
    break;
  }
  return choice_.place;
}

WaitingLine::Choice WaitingLine::choose(const Level& level, double now) const {
  if (!level.begun.empty()) return {*level.begun.begin(), Kind::kBegun, false};
  return choose_waiting(level, now);
}

WaitingLine::Choice WaitingLine::choose_waiting(const Level& level, double now) const {
  LinePlace* const young = young_of(level, now);
  LinePlace* const steady = steady_of(level, now);
  const bool both = young != nullptr && steady != nullptr;
  const auto due = [&] { return owed_ >= (1 - kSteadyShare) * steady->work; };
  if (steady != nullptr && (young == nullptr || due())) return {steady, Kind::kSteady, both};
  if (young != nullptr) return {young, Kind::kYoung, both};
  return {last_of(level), Kind::kLast, false};
}

// The one that stops being young first; where nobody leaves, the one that came first.
LinePlace* WaitingLine::young_of(const Level& level, double now) const {
  LinePlace* best = nullptr;
  double least = kForever;
  for (const auto& [key, lane] : level.lanes) {
    const auto it = lane.ages.young == kForever ? lane.places.begin()
                                                : lane.places.lower_bound(now - lane.ages.young);
    if (it == lane.places.end()) continue;
    const double until = (*it)->arrival + (plain_ ? 0 : lane.ages.young);
    if (best != nullptr && (until > least || (until == least && ByArrival()(best, *it)))) continue;
    best = *it;
    least = until;
  }
  return best;
}

LinePlace* WaitingLine::steady_of(const Lane& lane, double now) {
  for (const Ages& ages : lane.ages.steady) {
    const auto it =
        ages.to == kForever ? lane.places.begin() : lane.places.lower_bound(now - ages.to);
    if (it != lane.places.end() && now - (*it)->arrival >= ages.from &&
        now - (*it)->arrival > lane.ages.young)
      return *it;
  }
  return nullptr;
}

// The one that came first.
LinePlace* WaitingLine::steady_of(const Level& level, double now) const {
  LinePlace* best = nullptr;
  for (const auto& [key, lane] : level.lanes)
    if (LinePlace* const place = steady_of(lane, now);
        place != nullptr && (best == nullptr || ByArrival()(place, best)))
      best = place;
  return best;
}

// Those who are not likely to wait for their answer: the one that came last has the best chance.
LinePlace* WaitingLine::last_of(const Level& level) {
  LinePlace* best = nullptr;
  for (const auto& [key, lane] : level.lanes) {
    LinePlace* const place = *lane.places.rbegin();
    if (best == nullptr || ByArrival()(best, place)) best = place;
  }
  return best;
}

// By Little's law a request takes as long as it takes to compute so many.
int WaitingLine::most_at_once(int most, int least) const {
  if (plain_ || least >= most || pace_.work_of_a_request <= 0) return most;
  size_t sure = 0;
  while (sure < Patience::kSpans && stays_for(0, Patience::edge(sure)) >= kSure) ++sure;
  if (sure == Patience::kSpans || sure == 0) return most;
  const double requests = pace_.work_per_second / pace_.work_of_a_request;
  const double number = kYoungPart * Patience::edge(sure - 1) * requests;
  return std::clamp(static_cast<int>(std::min(number, 1e9)), least, most);
}

// The likelihood that who has waited for `age` seconds still waits when it has been served.
double WaitingLine::stays_for(double age, double seconds) const {
  return patience_.stays(age, seconds + kMargin * (age + seconds));
}

// --- What is known -------------------------------------------------------------------------------

void WaitingLine::refresh(double now) {
  patience_.pass(now);
  if (version_ == patience_.version()) return;
  version_ = patience_.version();
  sure_of_size_.clear();
  ages_of_key_.clear();
  plain_ = !patience_.known();
  if (plain_) {
    owed_ = 0;
    young_part_ = 1;
  }
  for (auto& [priority, level] : levels_)
    for (auto& [key, lane] : level.lanes) lane.ages = known_ages(key);
  add_up(now);
}

// Lanes of one size have it in common.
double WaitingLine::sure_until(int size, double seconds) const {
  const auto [it, added] = sure_of_size_.try_emplace(size, kForever);
  if (!added) return it->second;
  size_t sure = 0;
  while (sure < Patience::kSpans && stays_for(Patience::edge(sure), seconds) >= kSure) ++sure;
  if (sure < Patience::kSpans) it->second = Patience::edge(sure > 0 ? sure - 1 : 0);
  return it->second;
}

// They are the same at every priority.
const WaitingLine::LaneAges& WaitingLine::known_ages(const LaneKey& key) {
  const auto [it, added] = ages_of_key_.try_emplace(key);
  if (added) it->second = ages_of(key);
  return it->second;
}

WaitingLine::LaneAges WaitingLine::ages_of(const LaneKey& key) const {
  double seconds = service();
  if (key.first > 0 && pace_.work_per_second > 0)
    seconds += std::exp2(key.first) * pace_.work_of_a_request / pace_.work_per_second;
  LaneAges out;
  out.young = out.sure = kForever;
  // What its client says is known better than what others do.
  double last = kForever;
  if (key.second != 0) {
    const int power = key.second > 0 ? key.second - 1 : key.second;
    last = std::pow(kTimeoutRatio, power) - (seconds - service() + mean_service_);
    out.young = out.sure = std::max(0.0, last);
  }
  if (plain_) return out;
  const auto stays = [&](size_t k) {
    const double age = Patience::edge(k);
    if (key.second != 0) return age <= last ? 1.0 : 0.0;
    return stays_for(age, seconds);
  };
  const double sure = sure_until(key.first, seconds);
  out.sure = std::min(out.sure, sure);
  out.young = std::min(out.young, kYoungPart * sure);
  if (out.young == kForever) return out;
  for (size_t k = Patience::kSpans; k-- > 0;) {
    if (Patience::edge(k + (k + 1 < Patience::kSpans)) < out.young) break;
    if (stays(k) < kSteady || (k + 1 < Patience::kSpans && stays(k + 1) < kSteady)) continue;
    const double from = Patience::edge(k);
    const double to = k + 1 < Patience::kSpans ? Patience::edge(k + 1) : kForever;
    if (!out.steady.empty() && out.steady.back().from == to)
      out.steady.back().from = from;
    else
      out.steady.push_back({from, std::min(to, std::max(from, last))});
  }
  return out;
}

bool WaitingLine::is_late(const LinePlace& place, double now) {
  refresh(now);
  const LaneAges& ages = known_ages(lane_of(place));
  const double age = now - place.arrival;
  return age > ages.sure && !ages.is_steady(age);
}

void WaitingLine::add_up(double now) {
  young_work_ = steady_work_ = 0;
  young_until_ = 0;
  if (plain_) return;
  for (const auto& [priority, level] : levels_) {
    for (const LinePlace* place : level.begun) young_work_ += place->work;
    for (const auto& [key, lane] : level.lanes) {
      if (lane.ages.young != kForever) young_until_ = std::max(young_until_, lane.ages.young);
      for (const LinePlace* place : lane.places) {
        const double age = now - place->arrival;
        if (age <= lane.ages.young)
          young_work_ += place->work;
        else if (lane.ages.is_steady(age))
          steady_work_ += place->work;
      }
    }
  }
}

double WaitingLine::work_ahead(double now) {
  refresh(now);
  if (plain_) return work_;
  // While it is young, or else among the steady ones, with what is left for these.
  const double as_young = young_work_ / (1 - kSteadyShare);
  if (pace_.work_per_second <= 0 || as_young <= young_until_ * pace_.work_per_second)
    return std::min(as_young, work_);
  return steady_work_ / std::max(kSteadyShare, 1 - young_part_) + young_work_;
}

void WaitingLine::check_integrity() const {
  patience_.check_integrity();
  size_t size = 0;
  double work = 0;
  const auto check = [&](const Places& places, int priority, bool begun) {
    size += places.size();
    for (const LinePlace* place : places) {
      TANDEM_CHECK(place->waiting && place->begun == begun && place->priority == priority);
      work += place->work;
    }
  };
  for (const auto& [priority, level] : levels_) {
    TANDEM_CHECK(!level.begun.empty() || !level.lanes.empty());
    check(level.begun, priority, true);
    for (const auto& [key, lane] : level.lanes) {
      TANDEM_CHECK(!lane.places.empty() && (*lane.places.begin())->lane == key);
      check(lane.places, priority, false);
      for (size_t i = 1; i < lane.ages.steady.size(); ++i)
        TANDEM_CHECK(lane.ages.steady[i].to <= lane.ages.steady[i - 1].from);
    }
  }
  TANDEM_CHECK_EQ(size, size_);
  TANDEM_CHECK(std::abs(work - work_) <= 1e-6 * (1 + work));
}

}  // namespace tandem
