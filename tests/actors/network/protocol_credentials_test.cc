// Certificates, access files and what is refused of them.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "actors/network/credentials.h"
#include "actors/network/system_config.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"

namespace tandem::actors {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate parse(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate out(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free);
  BIO_free(bio);
  return out;
}

class AccessFileTest : public ::testing::Test {
 protected:
  AccessFileTest() { ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1); }
  ClientAccess access() { return {"127.0.0.1:5000", authority_.issue("client")}; }

  test::TempDir directory_;
  CertificateAuthority authority_;
};

TEST(CredentialsTest, OnlyTheAuthorityMaySign) {
  CertificateAuthority authority;
  const Credentials one = authority.issue("one"), two = authority.issue("two");
  const Certificate ca = parse(one.ca), certificate = parse(one.certificate);
  ASSERT_TRUE(ca && certificate);
  EXPECT_EQ(one.ca, two.ca);
  EXPECT_EQ(X509_check_ca(ca.get()), 1);
  EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  EXPECT_EQ(X509_verify(certificate.get(), X509_get0_pubkey(ca.get())), 1);
  EXPECT_EQ(X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0), 1);
  EXPECT_EQ(X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0), 1);
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(certificate.get()),
                             X509_get0_serialNumber(parse(two.certificate).get())),
            0);
  EXPECT_LT(X509_cmp_current_time(X509_get0_notBefore(certificate.get())), 0);
  EXPECT_GT(X509_cmp_current_time(X509_get0_notAfter(certificate.get())), 0);
  CertificateAuthority other;
  EXPECT_NE(X509_verify(certificate.get(), X509_get0_pubkey(parse(other.issue("x").ca).get())), 1);
  ERR_clear_error();
}

TEST(CredentialsTest, AreOneLineOfText) {
  CertificateAuthority authority;
  const Credentials credentials = authority.issue("one");
  const std::string text = credentials.encode();
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Credentials again = Credentials::decode(text);
  EXPECT_EQ(again.ca, credentials.ca);
  EXPECT_EQ(again.certificate, credentials.certificate);
  EXPECT_EQ(again.key, credentials.key);
  for (const char* wrong : {"", "[]", "{", "{\"ca\":1}", "{\"ca\":\"x\"}"})
    EXPECT_INPUT_ERROR(Credentials::decode(wrong), "credentials");
}

TEST(CredentialsTest, FilesInMemoryCanBeReplaced) {
  CertificateAuthority authority;
  const Credentials one = authority.issue("one"), two = authority.issue("a longer name");
  CredentialFiles files(one);
  EXPECT_EQ(test::read_file(files.key()), one.key);
  EXPECT_EQ(test::read_file(files.ca()), one.ca);
  files.replace(two);
  EXPECT_EQ(test::read_file(files.certificate()), two.certificate);
  files.replace(one);
  EXPECT_EQ(test::read_file(files.certificate()), one.certificate);
}

TEST_F(AccessFileTest, RoundTripForThisUserOnly) {
  const ClientAccess written = access();
  const AccessFile file(written, 5000);
  const auto path = file.path();
  EXPECT_EQ(path, directory_ / "tandem/client-5000.json");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(path.parent_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  const ClientAccess read = read_client_access("localhost:5000", {});
  EXPECT_EQ(read.address, "localhost:5000");
  EXPECT_EQ(read.credentials.key, written.credentials.key);
  EXPECT_EQ(read_client_access("", path).address, "127.0.0.1:5000");
  const ClientAccess newer = access();
  {
    const AccessFile replaced(newer, 5000);
    EXPECT_EQ(read_client_access("h:5000", {}).credentials.key, newer.credentials.key);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(AccessFileTest, WhoseFileWasReplacedLeavesTheOther) {
  auto first = std::make_unique<AccessFile>(access(), 5000);
  const AccessFile second(access(), 5000);
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(second.path()));
}

// A server that is killed: its process is gone, its file is not.
TEST_F(AccessFileTest, ThoseOfTheDeadAreSwept) {
  const AccessFile mine(access(), 5000);
  const pid_t child = ::fork();
  if (child == 0) {
    const AccessFile its(access(), 5001);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto dead = mine.path().parent_path() / "client-5001.json";
  ASSERT_TRUE(std::filesystem::exists(dead));
  const auto copy = [&](const char* name, const std::string& text) {
    const auto path = directory_.write(std::string("tandem/") + name, text);
    ::chmod(path.c_str(), 0600);
    return path;
  };
  // Not of a server here: renamed, of another host, of an earlier version, of the user's own.
  std::string elsewhere = test::read_file(dead);
  const size_t host = elsewhere.find("\"host\":\"") + 8;
  elsewhere.insert(host, "not-");
  const std::vector<std::filesystem::path> others = {
      copy("client-5002.json", test::read_file(dead)), copy("client-5003.json", "{}"),
      copy("client-5004.json", "garbage"), copy("notes.txt", "mine")};
  const auto temporary = copy("client-5005.json.1.tmp", "");
  sweep_access_files();
  EXPECT_TRUE(std::filesystem::exists(mine.path()));
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_FALSE(std::filesystem::exists(temporary));
  for (const auto& path : others) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  const auto foreign = copy("client-5001.json", elsewhere);
  sweep_access_files();
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST_F(AccessFileTest, OthersMayHaveNoHandInIt) {
  const AccessFile file(access(), 5000);
  const auto path = file.path();
  ::chmod(path.c_str(), 0640);
  EXPECT_INPUT_ERROR(read_client_access("h:5000", {}), "client-5000.json", "others may open it");
  ::chmod(path.c_str(), 0600);
  ::symlink(path.c_str(), (directory_ / "link").c_str());
  EXPECT_INPUT_ERROR(read_client_access("h:5000", directory_ / "link"), "symbolic link");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    EXPECT_INPUT_ERROR(read_client_access("h:5000", {}), "another user");
  }
  ::chmod(path.parent_path().c_str(), 0750);
  EXPECT_INPUT_ERROR(read_client_access("h:5000", {}), "others may open it");
  EXPECT_INPUT_ERROR(AccessFile(access(), 5000), "others may open it");
}

TEST_F(AccessFileTest, TheDirectoryIsNotASymbolicLink) {
  std::filesystem::create_directory(directory_ / "elsewhere");
  ::symlink("elsewhere", (directory_ / "tandem").c_str());
  EXPECT_INPUT_ERROR(access_directory(), "is not a directory");
}

TEST_F(AccessFileTest, OtherFilesAreRefused) {
  EXPECT_INPUT_ERROR(read_client_access("h:5001", {}), "client-5001.json");
  const auto write = [&](const std::string& text) {
    const auto path = directory_.write("access", text);
    ::chmod(path.c_str(), 0600);
    return path;
  };
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{\"address\":1}"),
                                  std::string("{\"address\":\"a:1\",\"credentials\":{}}")})
    EXPECT_INPUT_ERROR(read_client_access("h:5000", write(text)), "access");
  EXPECT_INPUT_ERROR(read_client_access("h:5000", write(std::string(1 << 20, 'x'))), "too large");
  ::mkfifo((directory_ / "fifo").c_str(), 0600);
  EXPECT_INPUT_ERROR(read_client_access("h:5000", directory_ / "fifo"), "regular file");
}

TEST(AddressTest, HostAndPort) {
  EXPECT_EQ(parse_address("localhost:5000"), (std::pair<std::string, uint16_t>("localhost", 5000)));
  EXPECT_EQ(parse_address("[::1]:65535"), (std::pair<std::string, uint16_t>("::1", 65535)));
  for (const char* wrong : {"", ":", "host", ":1", "host:", "host:0", "host:65536", "host:-1",
                            "host:1x", "::1:5", "host:99999999999"})
    EXPECT_INPUT_ERROR(parse_address(wrong), "address");
}

}  // namespace
}  // namespace tandem::actors
