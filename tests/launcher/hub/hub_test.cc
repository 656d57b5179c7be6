// Models at the hub, as far as no server is needed: names, choice of files, environment, cache,
// checksums. tests/python/hub/test_hub.py has the rest.
#include "launcher/hub/hub.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "launcher/hub/answers.h"
#include "launcher/hub/cache.h"
#include "launcher/hub/checksum.h"
#include "launcher/hub/names.h"
#include "launcher/hub/settings.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'c');

class HubCache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tandem-hub-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file, std::ios::binary) << text;
  }
  Settings settings(std::map<std::string, std::string> variables) {
    return Settings::from_environment([&](const char* name) -> const char* {
      const auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    });
  }

  fs::path root_;
  Hooks hooks_{{}, [](const std::string&) {}};
};

TEST(HubNames, Ids) {
  for (const char* good : {"gpt2", "facebook/bart-large-cnn", "a", "A_b.c-1/2", "_x_/y",
                           "sshleifer/distilbart-cnn-12-6"})
    EXPECT_TRUE(is_repository_id(good)) << good;
  for (const std::string& bad :
       {std::string(),        std::string("/a"),          std::string("a/"),
        std::string("a/b/c"), std::string("a--b"),        std::string("a..b"),
        std::string("."),     std::string(".."),          std::string("../x"),
        std::string("./x"),   std::string("-a"),          std::string("a-"),
        std::string("a b"),   std::string("a/b.git"),     std::string("a/b\n"),
        std::string("a?b"),   std::string("\xc3\xa9"),    std::string("a\0b", 3),
        std::string(97, 'x'), std::string(97, 'x') + "/a"})
    EXPECT_FALSE(is_repository_id(bad)) << bad;
}

TEST(HubNames, Revisions) {
  for (const char* good : {"main", "v1.0", "refs/pr/1", "feature/x_y"})
    EXPECT_NO_THROW(check_revision(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string("../x"), std::string("a/../b"), std::string("/a"),
        std::string("a/"), std::string("a//b"), std::string(".hidden"), std::string("a b"),
        std::string("a\nb"), std::string("a\\b"), std::string(201, 'a')})
    EXPECT_THROW(check_revision(bad), InputError) << bad;
  EXPECT_TRUE(is_commit(kCommit));
  EXPECT_FALSE(is_commit(std::string(39, 'c')));
  EXPECT_FALSE(is_commit(std::string(40, 'C')));
}

TEST(HubNames, FilesOfACheckpoint) {
  const std::set<std::string> all = {"config.json",       "tokenizer.json",
                                     "model.safetensors", "model.safetensors.index.json",
                                     "pytorch_model.bin", "pytorch_model.bin.index.json",
                                     "README.md",         "../config.json",
                                     "source.spm"};
  Selection s = select_files(all, ModelFiles::kCheckpoint);
  EXPECT_EQ(s.files, (std::vector<std::string>{"config.json", "tokenizer.json", "source.spm"}));
  EXPECT_EQ(s.weights, "model.safetensors");
  EXPECT_EQ(s.index, "");
  EXPECT_EQ(s.absent.size(), 14u);
  std::set<std::string> some = all;
  some.erase("model.safetensors");
  s = select_files(some, ModelFiles::kCheckpoint);
  EXPECT_EQ(s.weights, "");
  EXPECT_EQ(s.index, "model.safetensors.index.json");
  EXPECT_EQ(s.files.back(), s.index);
  some.erase("model.safetensors.index.json");
  EXPECT_EQ(select_files(some, ModelFiles::kCheckpoint).weights, "pytorch_model.bin");
  some.erase("pytorch_model.bin");
  EXPECT_EQ(select_files(some, ModelFiles::kCheckpoint).index, "pytorch_model.bin.index.json");
  some.erase("pytorch_model.bin.index.json");
  EXPECT_THROW(select_files(some, ModelFiles::kCheckpoint), InputError);
  EXPECT_EQ(select_files(some, ModelFiles::kTokenizer).weights, "");
}

TEST(HubNames, Shards) {
  const std::set<std::string> there = {"a", "b", "../a", "/a", "s/a"};
  const auto shards = [&](const char* index) {
    return shards_of(json_from<nlohmann::json>(index), "index", there);
  };
  EXPECT_EQ(shards(R"({"weight_map": {"x": "b", "y": "a", "z": "b"}})"),
            (std::vector<std::string>{"a", "b"}));
  for (const char* bad : {R"([])", R"({})", R"({"weight_map": []})", R"({"weight_map": {}})",
                          R"({"weight_map": {"x": 1}})", R"({"weight_map": {"x": "c"}})",
                          R"({"weight_map": {"x": "../a"}})", R"({"weight_map": {"x": "/a"}})",
                          R"({"weight_map": {"x": "s/a"}})", R"({"weight_map": {"x": ""}})"})
    EXPECT_THROW(shards(bad), InputError) << bad;
}

TEST(HubChecksum, DigestsAreThoseOfGitAndLfs) {
  // git hash-object, sha256sum.
  const std::string text = "hello\n";
  for (const char* etag : {"ce013625030ba8dba906f756967f9e9ca394464a",
                           "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"}) {
    Checksum good(etag, text.size());
    EXPECT_TRUE(good.known());
    good.update("xyz", 3);
    good.restart();
    good.update(text.data(), 2);
    good.update(text.data() + 2, text.size() - 2);
    EXPECT_TRUE(good.matches()) << etag;
    Checksum bad(etag, text.size());
    bad.update("hellO\n", text.size());
    EXPECT_FALSE(bad.matches()) << etag;
  }
  Checksum unknown("abc-1", 1);
  EXPECT_FALSE(unknown.known());
  EXPECT_TRUE(unknown.matches());
  EXPECT_EQ(plain_etag("W/\"abc\""), "abc");
  EXPECT_EQ(plain_etag("\"abc\""), "abc");
  EXPECT_EQ(plain_etag("abc"), "abc");
  EXPECT_EQ(plain_etag("\""), "");
}

TEST_F(HubCache, EnvironmentNamesTheCache) {
  const auto cache = [&](std::map<std::string, std::string> v) {
    v["HOME"] = "/h";
    return settings(v).cache.string();
  };
  EXPECT_EQ(cache({}), "/h/.cache/huggingface/hub");
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/hf"}}), "/h/hf/hub");
  EXPECT_EQ(cache({{"HF_HOME", "/hf"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}), "/old");
  EXPECT_EQ(cache({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "$HOME/${HOME}/$NO/c$"}}),
            "/h//h/$NO/c$");
  EXPECT_EQ(cache({{"HF_HUB_CACHE", ""}, {"HF_HOME", "/hf"}}), "/hf/hub");
}

TEST_F(HubCache, EnvironmentNamesTheServer) {
  EXPECT_EQ(settings({}).endpoint, "https://huggingface.co");
  EXPECT_EQ(settings({{"HF_ENDPOINT", "http://x:1/y//"}}).endpoint, "http://x:1/y");
  EXPECT_FALSE(settings({{"HF_HUB_OFFLINE", "0"}}).offline);
  EXPECT_TRUE(settings({{"HF_HUB_OFFLINE", "true"}}).offline);
  EXPECT_TRUE(settings({{"TRANSFORMERS_OFFLINE", "1"}}).offline);
  EXPECT_EQ(settings({{"HF_HUB_DOWNLOAD_TIMEOUT", "3"}}).download_timeout.count(), 3);
  for (const char* bad : {"0", "-1", "x", "3s", "99999999999999999999"})
    EXPECT_THROW(settings({{"HF_HUB_ETAG_TIMEOUT", bad}}), InputError) << bad;
}

TEST_F(HubCache, EnvironmentHasTheToken) {
  write("token", " hf_file\n");
  write("other", "hf_other");
  write("long", std::string(100000, 'x'));
  const std::string home = root_.string();
  EXPECT_EQ(settings({{"HF_HOME", home}}).token, "hf_file");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN", "hf_v"}}).token, "hf_v");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN_PATH", home + "/other"}}).token, "hf_other");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN_PATH", home + "/none"}}).token, "");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_TOKEN_PATH", home + "/long"}}).token, "");
  EXPECT_EQ(settings({{"HF_HOME", home}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}).token, "");
  EXPECT_THROW(settings({{"HF_TOKEN", "a\r\nX: y"}}), InputError);
  try {
    settings({{"HF_TOKEN", "sec ret"}});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()).find("sec"), std::string::npos);
  }
}

TEST_F(HubCache, LayoutIsHuggingFaces) {
  const Cache cache(root_, "org/name");
  cache.make_folders(kCommit);
  std::ofstream(cache.blob("e1")) << "one";
  EXPECT_FALSE(cache.has(kCommit, "config.json"));
  cache.link(kCommit, "config.json", "e1");
  cache.link(kCommit, "config.json", "e1");  // again
  EXPECT_TRUE(cache.has(kCommit, "config.json"));
  EXPECT_EQ(fs::read_symlink(root_ / "models--org--name/snapshots" / kCommit / "config.json"),
            "../../blobs/e1");
  cache.link(kCommit, "merges.txt", "gone");
  EXPECT_FALSE(cache.has(kCommit, "merges.txt"));
  EXPECT_EQ(cache.commit_of("refs/pr/1"), std::nullopt);
  cache.remember("refs/pr/1", kCommit);
  EXPECT_EQ(cache.commit_of("refs/pr/1"), kCommit);
  EXPECT_TRUE(fs::is_regular_file(root_ / "models--org--name/refs/refs/pr/1"));
  EXPECT_EQ(cache.commit_of(kCommit), kCommit);
  for (const std::string& bad : {std::string("../../x"), std::string(), kCommit + "0"}) {
    write("models--org--name/refs/main", bad);
    EXPECT_EQ(cache.commit_of("main"), std::nullopt) << bad;
  }
  write("models--org--name/refs/main", kCommit + "\n");
  EXPECT_EQ(cache.commit_of("main"), kCommit);
}

TEST_F(HubCache, WhatASnapshotLacks) {
  EXPECT_EQ(missing_from(root_ / "none", ModelFiles::kTokenizer), "config.json");
  write("config.json", "{}");
  EXPECT_EQ(missing_from(root_, ModelFiles::kTokenizer), "tokenizer.json");
  write("vocab.json", "{}");
  write("merges.txt", "");
  EXPECT_EQ(missing_from(root_, ModelFiles::kTokenizer), "");
  EXPECT_EQ(missing_from(root_, ModelFiles::kCheckpoint), "model.safetensors");
  write("model.safetensors.index.json", R"({"weight_map": {"a": "s1", "b": "s2"}})");
  write("s1", "");
  EXPECT_EQ(missing_from(root_, ModelFiles::kCheckpoint), "s2");
  fs::create_symlink("nowhere", root_ / "s2");
  EXPECT_EQ(missing_from(root_, ModelFiles::kCheckpoint), "s2");
  fs::remove(root_ / "s2");
  write("s2", "");
  EXPECT_EQ(missing_from(root_, ModelFiles::kCheckpoint), "");
  // What is no index is told by whoever reads the checkpoint.
  for (const char* text : {"[]", "3", "{\"weight_map\": 3}"}) {
    write("model.safetensors.index.json", text);
    EXPECT_EQ(missing_from(root_, ModelFiles::kCheckpoint), "") << text;
  }
  write("model.safetensors.index.json", "{");
  EXPECT_THROW(missing_from(root_, ModelFiles::kCheckpoint), InputError);
}

TEST_F(HubCache, OneHolderOfALock) {
  const fs::path file = root_ / "locks/a.lock";
  std::atomic<int> holders{0}, most{0}, turns{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const FileLock lock(file, hooks_);
      most = std::max(most.load(), ++holders);
      std::this_thread::yield();
      --holders;
      if (++turns == 4) fs::remove(file);  // as some versions of its Python twin do at the end
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(turns, 8);
  EXPECT_EQ(most, 1);
  const FileLock held(file, hooks_);
  EXPECT_THROW(FileLock(file, Hooks{[] { return true; }, [](const std::string&) {}}), Interrupted);
}

TEST_F(HubCache, DirectoriesWinAndMistakesSayBoth) {
  const Settings offline = settings({{"HF_HUB_OFFLINE", "1"}, {"HF_HOME", root_.string()}});
  EXPECT_EQ(find_model({root_.string(), "main", {}, ModelFiles::kCheckpoint}, offline, {}), root_);
  for (const std::string& model :
       {std::string("/nowhere"), std::string("a/b/c"), std::string("..."), std::string()}) {
    try {
      find_model({model, "main", {}, ModelFiles::kCheckpoint}, offline, {});
      FAIL() << model;
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "model");
      EXPECT_NE(std::string(e.what()).find("neither a directory nor the id"), std::string::npos);
    }
  }
  // A file, whatever its name could be at the hub.
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  std::ofstream("m.gguf") << "GGUF";
  try {
    find_model({"m.gguf", "main", {}, ModelFiles::kCheckpoint}, offline, {});
    ADD_FAILURE();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("is a file"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("GGUF"), std::string::npos) << e.what();
  }
  fs::current_path(before);
  EXPECT_THROW(find_model({"org/name", "../x", {}, ModelFiles::kCheckpoint}, offline, {}),
               InputError);
}

TEST(HubAnswers, HeadsThatAreNoHubs) {
  Response answer;
  answer.status = 200;
  answer.headers = {{"x-repo-commit", kCommit}, {"etag", "\"abc\""}, {"content-length", "7"}};
  const auto parse = [&] { return parse_file_head(answer, "config.json", "http://x", kCommit); };
  EXPECT_EQ(parse().etag, "abc");
  EXPECT_EQ(parse().size, 7u);
  answer.headers["x-linked-etag"] = "\"def\"";
  answer.headers["x-linked-size"] = "8";
  EXPECT_EQ(parse().etag, "def");
  EXPECT_EQ(parse().size, 8u);
  for (const auto& [name, values] : std::map<std::string, std::vector<std::string>>{
           {"x-linked-etag", {"../../x", ".hidden", "a/b", std::string(200, 'a')}},
           {"x-linked-size", {"x", "-1", "99999999999999999999", "9999999999999999999", "7x"}},
           {"x-repo-commit", {"", "main", "../x"}}}) {
    const std::string before = answer.headers[name];
    for (const std::string& value : values) {
      answer.headers[name] = value;
      EXPECT_THROW(parse(), InputError) << name << ": " << value;
    }
    answer.headers[name] = before;
  }
}

}  // namespace
}  // namespace tandem::hub
