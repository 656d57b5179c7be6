// What /proc tells of processes and of the ports that they listen on. Processes come and go while
// it is read; one that has gone has nothing.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::test {

struct ProcessInfo {
  pid_t pid = 0, parent = 0;
  char state = '?';  // Z: dead, waited for by nobody yet
};

inline std::string proc_text(pid_t pid, const char* name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// pid 0: there is none.
inline ProcessInfo process_info(pid_t pid) {
  const std::string stat = proc_text(pid, "stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  ProcessInfo info{pid, 0, '?'};
  std::istringstream(stat.substr(name_end + 1)) >> info.state >> info.parent;
  return info;
}

inline std::vector<pid_t> all_pids() {
  std::vector<pid_t> out;
  DIR* dir = opendir("/proc");
  while (const dirent* entry = readdir(dir)) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr == end && pid > 0) out.push_back(pid);
  }
  closedir(dir);
  return out;
}

inline bool is_alive(pid_t pid) {
  const ProcessInfo info = process_info(pid);
  return info.pid != 0 && info.state != 'Z' && info.state != 'X';
}

// Without the zombies.
inline std::vector<pid_t> descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_pids()) {
    const ProcessInfo info = process_info(pid);
    if (info.pid != 0 && info.state != 'Z') children.emplace(info.parent, pid);
  }
  std::vector<pid_t> out{root};
  for (size_t i = 0; i < out.size(); ++i)
    for (auto [it, end] = children.equal_range(out[i]); it != end; ++it) out.push_back(it->second);
  out.erase(out.begin());
  return out;
}

inline std::vector<std::string> command_line(pid_t pid) {
  std::vector<std::string> out;
  std::istringstream in(proc_text(pid, "cmdline"));
  for (std::string word; std::getline(in, word, '\0');) out.push_back(word);
  return out;
}

// Those with a variable that begins like this, whoever their parents are now. Without the zombies.
inline std::vector<pid_t> with_environment(const std::string& start) {
  std::vector<pid_t> out;
  for (const pid_t pid : all_pids()) {
    const std::string all = '\0' + proc_text(pid, "environ");
    if (all.find('\0' + start) != std::string::npos && is_alive(pid) && pid != getpid())
      out.push_back(pid);
  }
  return out;
}

inline int num_fds(pid_t pid) {
  std::error_code ignored;
  const auto dir = "/proc/" + std::to_string(pid) + "/fd";
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(dir, ignored),
                                        std::filesystem::directory_iterator()));
}

inline int64_t resident_kib(pid_t pid) {
  const std::string status = proc_text(pid, "status");
  const size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stoll(status.substr(at + 6));
}

struct Listener {
  pid_t pid = 0;
  std::string address;
  uint16_t port = 0;

  std::string name() const { return address + ":" + std::to_string(port); }
};

// As /proc/net prints it: words of 32 bits, in the order of this machine's bytes.
inline std::string address_text(const std::string& hex) {
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < hex.size() / 8 && i < words.size(); ++i)
    words[i] = static_cast<uint32_t>(std::stoul(hex.substr(8 * i, 8), nullptr, 16));
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(hex.size() == 8 ? AF_INET : AF_INET6, words.data(), text.data(), text.size());
  return text.data();
}

// The TCP ports that these processes listen on.
inline std::vector<Listener> listeners(const std::vector<pid_t>& pids) {
  std::map<std::string, pid_t> owners;  // by the socket's inode
  for (const pid_t pid : pids) {
    std::error_code ignored;
    const auto dir = "/proc/" + std::to_string(pid) + "/fd";
    for (const auto& fd : std::filesystem::directory_iterator(dir, ignored)) {
      const std::string target = std::filesystem::read_symlink(fd.path(), ignored).string();
      if (target.rfind("socket:[", 0) == 0) owners[target.substr(8, target.size() - 9)] = pid;
    }
  }
  std::vector<Listener> out;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skip, inode;
      fields >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) fields >> skip;
      fields >> inode;
      const auto owner = owners.find(inode);
      if (state != "0A" || owner == owners.end()) continue;
      const size_t colon = local.find(':');
      out.push_back({owner->second, address_text(local.substr(0, colon)),
                     static_cast<uint16_t>(std::stoi(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return out;
}

inline std::set<std::string> files_in(const std::filesystem::path& dir) {
  std::set<std::string> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir, ignored))
    if (!entry.is_directory(ignored)) out.insert(entry.path().string());
  return out;
}

// Files of this user in /dev/shm that no process has mapped: left behind by somebody.
inline std::set<std::string> abandoned_shared_memory() {
  std::set<std::string> files = files_in("/dev/shm");
  std::erase_if(files, [](const std::string& file) {
    struct stat info = {};
    return stat(file.c_str(), &info) != 0 || info.st_uid != getuid();
  });
  if (files.empty()) return files;
  for (const pid_t pid : all_pids()) {
    const std::string maps = proc_text(pid, "maps");
    if (maps.find("/dev/shm/") == std::string::npos) continue;
    std::erase_if(files, [&](const std::string& f) { return maps.find(f) != std::string::npos; });
  }
  return files;
}

}  // namespace tandem::test
