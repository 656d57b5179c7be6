// Who may talk to a server: a certificate authority for each run, and the certificates it issues to
// the engine, the workers and the clients. Only their holders pass the TLS handshake.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace tandem::actors {

// PEM texts.
struct Credentials {
  std::string ca;           // the authority's certificate
  std::string certificate;  // one's own
  std::string key;          // its private key

  // One line of text, for an environment variable; and back. Throws InputError.
  std::string encode() const;
  static Credentials decode(const std::string& text);
};

// Its private key never leaves the object. Not thread-safe.
class CertificateAuthority {
 public:
  // A new one (EC P-256, valid for ten years from an hour ago). Throws std::runtime_error.
  CertificateAuthority();
  ~CertificateAuthority();
  CertificateAuthority(const CertificateAuthority&) = delete;
  CertificateAuthority& operator=(const CertificateAuthority&) = delete;

  Credentials issue(const std::string& common_name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The file by which clients of the same user find a server, and are let in.
struct ClientAccess {
  std::string address;  // host:port
  Credentials credentials;
};

// $XDG_RUNTIME_DIR/tandem, else /tmp/tandem-<uid>; made with mode 0700. Throws InputError if it is
// not a directory of this user that no one else may enter.
std::filesystem::path access_directory();
// <directory>/client-<port>.json, mode 0600, of a server that runs: gone with the object. An old
// one is replaced. Those of servers that were killed are swept by the next one.
class AccessFile {
 public:
  // Throws InputError.
  AccessFile(const ClientAccess& access, int port);
  ~AccessFile();
  AccessFile(AccessFile&& other) noexcept;
  AccessFile& operator=(AccessFile&&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // the file, locked as long as its owner lives
};
// Removes those that a server on this host has written and that nobody holds any more. Never fails.
void sweep_access_files();
// `file` empty: the one of the address's port in access_directory(); `address` empty: the file's.
// Throws InputError naming the file.
ClientAccess read_client_access(const std::string& address, const std::filesystem::path& file);

// The credentials as files that only this process can open (memfd), for CAF's options.
class CredentialFiles {
 public:
  explicit CredentialFiles(const Credentials& credentials);
  ~CredentialFiles();
  CredentialFiles(const CredentialFiles&) = delete;
  CredentialFiles& operator=(const CredentialFiles&) = delete;
  // Another authority's, for connections to come. Not while one is being made.
  void replace(const Credentials& credentials);
  std::string ca() const { return path(fds_[0]); }
  std::string certificate() const { return path(fds_[1]); }
  std::string key() const { return path(fds_[2]); }

 private:
  static std::string path(int fd);
  void close_all();
  int fds_[3] = {-1, -1, -1};
};

}  // namespace tandem::actors
