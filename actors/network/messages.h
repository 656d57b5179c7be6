// The messages between actors and the typed interfaces that take them. All that a client library
// needs, with the schema (runtime/protocol/tandem.proto) and CAF.
#pragma once

#include <google/protobuf/arena.h>

#include <caf/all.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::actors {

// An immutable Protobuf message inside a CAF message: in one process a pointer, between processes
// its bytes, which are made once however many receivers there are. Copies share the message. One
// that is built or parsed here lies in an arena: its many parts are freed at once, so that no
// thread frees them piece by piece into another's heap.
template <class T>
class Pb {
 public:
  Pb() = default;
  explicit Pb(T&& message) : box_(std::make_shared<Box>(new T(std::move(message)))) {
    box_->arena.Own(const_cast<T*>(box_->message));
  }
  // write(T&) → whether there is a message; if not, the result is the empty one.
  template <class Write>
  static Pb build(const Write& write) {
    auto box = std::make_shared<Box>(nullptr);
    T* const message = google::protobuf::Arena::CreateMessage<T>(&box->arena);
    box->message = message;
    Pb out;
    if (write(*message)) out.box_ = std::move(box);
    return out;
  }

  explicit operator bool() const { return box_ != nullptr; }
  const T& operator*() const {
    static const T empty;
    return box_ ? *box_->message : empty;
  }
  const T* operator->() const { return &**this; }

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, Pb& x) {
    if constexpr (std::is_void_v<typename Inspector::result_type>) {
      std::string name = x->GetTypeName();  // to_string: requests may hold private text
      return f(name);
    } else if constexpr (Inspector::reads_state) {
      return f(const_cast<std::string&>(x.bytes()));
    } else {
      // A string is checked against what has arrived before it is allocated.
      std::string bytes;
      auto parse = caf::meta::load_callback([&]() -> caf::error {
        Pb parsed = build([&](T& message) { return message.ParseFromString(bytes); });
        if (!parsed) return caf::sec::malformed_basp_message;
        x = std::move(parsed);
        return caf::none;
      });
      return f(bytes, parse);
    }
  }

 private:
  struct Box {
    explicit Box(const T* m) : arena(arena_options()), message(m) {}
    google::protobuf::Arena arena;
    const T* message;
    std::once_flag once;
    std::string bytes;
  };
  static google::protobuf::ArenaOptions arena_options() {
    google::protobuf::ArenaOptions options;
    options.max_block_size = 32 << 10;  // bytes; larger ones would be returned to the system
    return options;
  }
  const std::string& bytes() const {
    static const std::string none;
    if (!box_) return none;
    std::call_once(box_->once, [this] { box_->bytes = box_->message->SerializeAsString(); });
    return box_->bytes;
  }
  std::shared_ptr<Box> box_;
};

using WorkerCommandMessage = Pb<proto::WorkerCommand>;
using WorkerReportMessage = Pb<proto::WorkerReport>;
using ClientMessage = Pb<proto::ClientMessage>;
using ServerMessage = Pb<proto::ServerMessage>;

// A client, as the engine sees it.
using ClientHandle = caf::typed_actor<caf::reacts_to<ServerMessage>>;
// The engine, as clients see it. A client's first message is its hello.
using EngineHandle = caf::typed_actor<caf::reacts_to<ClientHandle, ClientMessage>>;

// A rank of a worker group.
using WorkerHandle = caf::typed_actor<caf::reacts_to<WorkerCommandMessage>>;
// Where workers report: the supervisor. Step outputs go to whoever sent the step, its scheduler.
using ReportHandle = caf::typed_actor<caf::reacts_to<WorkerHandle, WorkerReportMessage>>;

}  // namespace tandem::actors
