// Documents in an EngineCore: one request to their client, through errors, cancellation and a
// replica that goes down.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine/engine_core_driver.h"

namespace tandem::engine_core_documents_test {
namespace {

using namespace testing_support;
using Lines = std::vector<std::string>;

class DocumentCore : public ::testing::Test, public EngineCoreDriver {
 protected:
  DocumentCore() {
    core().client_connected(0, ClientKind::kDirect);
    up();
  }
  void submit_document(const std::string& id, const std::vector<DocumentPart>& parts) {
    reserve(0, id);
    PreparedRequest request;
    request.document.emplace();
    for (const DocumentPart& part : parts) request.document->document.parts.push_back(part);
    core().prepared(id, std::move(request), now);
    core().check_integrity();
  }
  void prepare_all() {
    for (const proto::SubmitRequest& part : std::exchange(to_prepare, {})) {
      core().prepared(part.request_id(), small_request(1, 2), now);
      core().check_integrity();
    }
  }
};

TEST_F(DocumentCore, PartsAreOneRequest) {
  submit_document("d", {{"", "a"}, {" ", "b"}});
  ASSERT_EQ(to_prepare.size(), 2u);
  EXPECT_EQ(to_prepare[0].prompt().encoder().text(), "a");
  EXPECT_EQ(core().num_unfinished(), 1u);
  prepare_all();
  EXPECT_EQ(told(), (Lines{"add d#0", "add d#1"}));
  token(0, "d#1", 'x'), token(0, "d#1", 'y');
  EXPECT_TRUE(chunks(0).empty());
  EXPECT_EQ(told(), Lines{"abort d#1"}) << "a part that has ended is forgotten";
  token(0, "d#0", 'u');
  down(0, /*crashed=*/false);
  up();
  EXPECT_EQ(told(), Lines{"add d#0+1"});
  token(0, "d#0", 'v');
  const auto news = chunks(0);
  ASSERT_FALSE(news.empty());
  EXPECT_TRUE(news.back().finished());
  EXPECT_EQ(news.back().outputs(0).text(), "uv xy");
  EXPECT_TRUE(core().idle());
  EXPECT_EQ(core().num_requests(), 0u);
}

TEST_F(DocumentCore, AnErrorOfAPartIsTheRequests) {
  submit_document("d", {{"", "a"}, {" ", "b"}, {" ", "c"}});
  const auto parts = std::exchange(to_prepare, {});
  core().prepared(parts[0].request_id(), small_request(1, 2), now);
  core().failed(parts[1].request_id(), InputError(ErrorKind::kInvalidRequest, "bad", "prompt"),
                now);
  core().check_integrity();
  const auto news = chunks(0);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].request_id(), "d");
  EXPECT_EQ(news[0].error().message(), "bad");
  core().prepared(parts[2].request_id(), small_request(1, 2), now);
  core().check_integrity();
  EXPECT_EQ(core().num_requests(), 0u);
}

TEST_F(DocumentCore, Cancelled) {
  submit_document("d", {{"", "a"}, {" ", "b"}});
  prepare_all();
  token(0, "d#0", 'x');
  core().cancel("d#1", now);  // a part is nobody's to cancel
  core().check_integrity();
  EXPECT_EQ(core().num_unfinished(), 1u);
  core().cancel("d", now);
  core().check_integrity();
  EXPECT_EQ(core().num_requests(), 0u);
  EXPECT_EQ(told(), (Lines{"add d#0", "add d#1", "abort d#0", "abort d#1"}));
}

}  // namespace
}  // namespace tandem::engine_core_documents_test
