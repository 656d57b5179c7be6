// The server without sockets, with a model that hears and an engine whose news the test writes.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/network/fake_http.h"

namespace tandem::test {

using FormFields = std::vector<std::pair<std::string, std::string>>;

inline constexpr const char* kTranscriptions = "/v1/audio/transcriptions";
inline constexpr const char* kTranslations = "/v1/audio/translations";

inline std::string sound_form(const FormFields& fields, const std::string& file = "RIFF") {
  std::string body;
  for (const auto& [name, text] : fields)
    body += "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n";
  return body +
         "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n"
         "Content-Type: audio/wav\r\n\r\n" +
         file + "\r\n--b--\r\n";
}

// A server whose model hears; what the engine says, as it would of sound.
struct SpeechServer : FakeServer {
  SpeechServer() {
    context.speech_tasks = {"transcribe", "translate"};
    context.speech_languages = {"de", "en"};
  }
  std::shared_ptr<FakeExchange> send(const FormFields& fields, const char* path = kTranscriptions,
                                     const std::string& file = "RIFF") {
    return ask("POST", path, sound_form(fields, file),
               {{"content-type", "multipart/form-data; boundary=b"}});
  }
  void say(proto::RequestChunk chunk) {
    engine.callbacks.at(engine.requests.back().id)(std::move(chunk));
    exchanges.back()->run_posted();
  }
  // Two windows of 3.2 s: a segment each.
  void say_all(bool times) {
    proto::RequestChunk first;
    first.set_language("<|de|>");
    first.mutable_progress()->set_seconds_done(2);
    first.mutable_progress()->set_seconds(3.2);
    add(first, 0, " Guten Tag,", 0, 2, times);
    say(std::move(first));
    proto::RequestChunk last;
    add(last, 1, " Welt. ", 2, 3.2, times);
    last.mutable_progress()->set_seconds_done(3.2);
    last.mutable_progress()->set_seconds(3.2);
    last.mutable_outputs(0)->set_finish_reason("stop");
    last.set_finished(true);
    say(std::move(last));
  }
  static void add(proto::RequestChunk& chunk, int before, const std::string& text, double start,
                  double end, bool times) {
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_text(text);
    news.add_token_ids(5);
    if (!times) return;
    news.set_segment_offset(before);
    proto::SpeechSegment& segment = *news.add_segments();
    segment.set_text(text);
    segment.set_start(start);
    segment.set_end(end);
    segment.add_token_ids(5);
    proto::SpeechWord& word = *segment.add_words();
    word.set_word(text);
    word.set_start(start);
    word.set_end(end);
  }
  // The bytes of the file that the engine got.
  std::string file() const {
    const MediaSource& source = *engine.requests.back().sound;
    std::string bytes(source.size(), '?');
    return pread(source.fd(), bytes.data(), bytes.size(), 0) < 0 ? "" : bytes;
  }
  const proto::Sound& sound() const { return engine.requests.back().prompt.encoder().sound(); }
};

}  // namespace tandem::test
