// A server without a server, in virtual time: clients come, some leave after a while, a line says
// who is computed next. For tests of the order and for the table in docs/serving.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "runtime/engine/core/waiting_line.h"

namespace tandem::testing_support {

// What comes, and how long it waits.
struct Crowd {
  double peak = 20;     // requests that are computed in a second
  double factor = 10;   // times as many come
  double seconds = 60;  // so long
  double patient = 0;   // part of the clients, who stay as long as it takes
  // Seconds that one of the others waits.
  std::function<double(std::mt19937&)> patience = [](std::mt19937&) { return 4.0; };
  std::function<double(std::mt19937&)> length = [](std::mt19937&) { return 1.0; };  // mean 1
  int seats = 25;           // requests that are computed at once
  double half_speed = 0;    // so many at once are computed half as fast as very many
  double seen_after = 0.3;  // seconds until the server knows that a client has left
  double way_back = 0.05;   // seconds of an answer
  double swing = 0;         // of the speed, slowly up and down
  bool plain = false;       // without the order: what it is against
  unsigned seed = 1;
};

class WaitingRoom {
 public:
  struct Client {
    LinePlace place;
    std::shared_ptr<Patience::Stay> stay;
    double leaves = 0, length = 1, done = 0, started = 0, ended = 0;
    bool patient = false, in_time = false, gone = false, running = false, called = false;
  };
  struct Outcome {
    int patient = 0, patient_served = 0;
    // After the first ten seconds, of the peak: answers in time; those to the patient among them.
    double in_time = 0, to_patient = 0;
    double slowest_patient = 0;
    double served_after = 0;  // seconds until the last patient one had its answer
    double throughput = 0;    // of the peak, as long as anybody waits
  };

  explicit WaitingRoom(Crowd crowd) : crowd_(std::move(crowd)), random_(crowd_.seed) {}

  WaitingLine& line() { return line_; }

  Outcome run(double most_seconds = 4000) {
    std::exponential_distribution<double> pause(crowd_.factor * crowd_.peak);
    double next = pause(random_);
    int ended = 0;
    double busy_until = 0;
    for (int step = 0;; ++step) {
      now_ = step * kStep;
      for (; next <= now_ && next < crowd_.seconds; next += pause(random_)) enter();
      leave();
      start();
      const int done = compute();
      ended += done;
      if (done > 0) busy_until = now_;
      if (step % 500 == 0) line_.check_integrity();
      if (now_ > crowd_.seconds && line_.size() == 0 && called_.empty() && running_.empty()) break;
      if (now_ > most_seconds) break;
    }
    Outcome out = count();
    out.throughput = ended / (crowd_.peak * busy_until);
    return out;
  }
  const std::list<Client>& clients() const { return clients_; }

 private:
  static constexpr double kStep = 0.01;

  void enter() {
    Client& client = clients_.emplace_back();
    client.patient = std::uniform_real_distribution<>()(random_) < crowd_.patient;
    client.length = crowd_.length(random_);
    client.leaves = client.patient ? 1e9 : now_ + crowd_.patience(random_);
    if (!client.patient) leaving_.emplace(client.leaves + crowd_.seen_after, &client);
    client.place.arrival = now_;
    client.place.serial = ++serial_;
    client.place.work = 1;
    client.stay = line_.patience().enter(now_);
    line_.add(client.place);
    by_place_[&client.place] = &client;
  }

  // Whoever waits no longer, as the server sees it.
  void leave() {
    for (auto it = leaving_.begin(); it != leaving_.end() && it->first <= now_;
         it = leaving_.erase(it)) {
      Client& client = *it->second;
      if (client.ended > 0) continue;
      client.gone = true;
      if (!crowd_.plain) line_.patience().left(*client.stay, now_);
      if (client.place.waiting) line_.remove(client.place);
      if (client.called) called_.remove(&client);
      if (client.running) {
        line_.note_service(now_ - client.started, false);
        running_.remove(&client);
      }
    }
  }

  void start() {
    // They lose their turn if it comes too late (Intake::next_held()).
    for (auto it = called_.begin(); it != called_.end();) {
      Client& client = **it;
      if (!line_.is_late(client.place, now_)) {
        ++it;
        continue;
      }
      it = called_.erase(it);
      client.called = false;
      line_.add(client.place);
    }
    line_.set_pace({crowd_.peak, 1});
    call();
    while (static_cast<int>(running_.size()) < line_.most_at_once(crowd_.seats, 8)) {
      if (called_.empty()) break;
      Client& client = *called_.front();
      called_.pop_front();
      client.called = false;
      client.started = now_;
      client.running = true;
      running_.push_back(&client);
      call();
    }
  }
  void call() {
    // Those that are ready for a seat before it is free.
    const double ahead = std::clamp(std::ceil(0.25 * crowd_.peak), 2.0, 8.0);
    while (static_cast<double>(called_.size()) < ahead) {
      LinePlace* place = line_.first(now_);
      if (place == nullptr) break;
      line_.take(*place);
      Client& client = *by_place_.at(place);
      client.called = true;
      called_.push_back(&client);
    }
  }

  // All of them get on equally. Returns how many have ended.
  int compute() {
    if (running_.empty()) return 0;
    const auto count = static_cast<double>(running_.size()), seats = double(crowd_.seats);
    const double of_peak =
        (seats + crowd_.half_speed) / seats * count / (count + crowd_.half_speed);
    const double speed = crowd_.peak * of_peak * (1 + crowd_.swing * std::sin(now_ / 3));
    const double each = speed * kStep / count;
    int ended = 0;
    for (auto it = running_.begin(); it != running_.end();) {
      Client& client = **it;
      client.done += each;
      if (client.done < client.length) {
        ++it;
        continue;
      }
      client.ended = now_;
      client.in_time = now_ + crowd_.way_back <= client.leaves;
      client.running = false;
      line_.patience().served(*client.stay);
      line_.note_service(now_ - client.started, true);
      it = running_.erase(it);
      ++ended;
    }
    return ended;
  }

  Outcome count() const {
    Outcome out;
    for (const Client& client : clients_) {
      out.patient += client.patient;
      if (client.ended == 0) continue;
      if (client.patient) {
        ++out.patient_served;
        out.slowest_patient = std::max(out.slowest_patient, client.ended - client.place.arrival);
        out.served_after = std::max(out.served_after, client.ended);
      }
      if (client.in_time && client.ended >= 10 && client.ended < crowd_.seconds) {
        out.in_time += 1;
        out.to_patient += client.patient;
      }
    }
    const double all = crowd_.peak * (crowd_.seconds - 10);
    out.in_time /= all;
    out.to_patient /= all;
    return out;
  }

  Crowd crowd_;
  std::mt19937 random_;
  WaitingLine line_;
  std::list<Client> clients_;
  std::multimap<double, Client*> leaving_;  // by when it is seen
  std::list<Client*> called_, running_;
  std::unordered_map<LinePlace*, Client*> by_place_;
  uint64_t serial_ = 0;
  double now_ = 0;
};

}  // namespace tandem::testing_support
