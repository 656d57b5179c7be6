// LocalStream, LocalStreams: every stream ends, once.
#include "runtime/engine/local_streams.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

// "text", "text.", where it is the last, or the type of an error.
using Heard = std::vector<std::string>;

std::shared_ptr<LocalStream> stream(const std::string& id, Heard& heard) {
  return std::make_shared<LocalStream>(id, [&heard, id](proto::RequestChunk chunk) {
    EXPECT_EQ(chunk.request_id(), id);
    EXPECT_TRUE(chunk.finished() || !chunk.has_error());
    if (chunk.has_error())
      heard.push_back(chunk.error().type());
    else
      heard.push_back(chunk.outputs(0).text() + (chunk.finished() ? "." : ""));
  });
}

void say(proto::ServerMessage& message, const std::string& id, const std::string& text,
         bool finished = false) {
  proto::RequestChunk& chunk = *message.add_chunks();
  chunk.set_request_id(id);
  chunk.add_outputs()->set_text(text);
  chunk.set_finished(finished);
}

TEST(LocalStreams, EachGetsItsOwnNews) {
  Heard a, b;
  LocalStreams streams;
  streams.add(stream("a", a));
  streams.add(stream("b", b));
  proto::ServerMessage message;
  say(message, "a", "1");
  say(message, "b", "2", true);
  say(message, "c", "nobody's");
  streams.deliver(std::move(message));
  EXPECT_EQ(a, Heard{"1"});
  EXPECT_EQ(b, Heard{"2."});
  EXPECT_EQ(streams.size(), 1u);
  EXPECT_EQ(streams.any(), "a");
  EXPECT_EQ(streams.take("b"), nullptr);
  proto::Error cancelled;
  cancelled.set_type("cancelled");
  streams.take("a")->fail(cancelled);
  EXPECT_EQ(a, (Heard{"1", "cancelled"}));
  EXPECT_EQ(streams.size(), 0u);
}

TEST(LocalStreams, WhoIsForgottenIsTold) {
  Heard heard;
  { const auto forgotten = stream("x", heard); }
  EXPECT_EQ(heard, Heard{"unavailable_error"});
  heard.clear();
  {
    LocalStreams streams;
    streams.add(stream("x", heard));
  }
  EXPECT_EQ(heard, Heard{"unavailable_error"});
}

TEST(LocalStreams, NothingAfterTheLastChunk) {
  Heard heard;
  const auto one = stream("x", heard);
  proto::ServerMessage message;
  say(message, "x", "all", true);
  say(message, "x", "more");
  one->hand_on(message.chunks(0));
  one->hand_on(message.chunks(1));
  one->fail(InputError(ErrorKind::kInternal, "late"));
  EXPECT_EQ(heard, Heard{"all."});
}

}  // namespace
}  // namespace tandem
