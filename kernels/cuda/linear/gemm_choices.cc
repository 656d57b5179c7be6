// The file of choices (gemm_choices.h): lines of text, a checksum at the end. It is replaced as a
// whole, so that readers see the old one or the new one.
#include "kernels/cuda/linear/gemm_choices.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem::cuda {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxChoices = 16384;
constexpr size_t kMaxFileBytes = size_t{8} << 20;
constexpr auto kBetweenSaves = std::chrono::seconds(2);
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

uint64_t checksum(std::string_view text) {  // FNV-1a
  uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return sum;
}

std::string hex(uint64_t value) {
  char digits[17] = {};
  for (int i = 0; i < 16; ++i) digits[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return digits;
}

// The name is a device's: kept to one line of the file, and to one component of a path.
std::string plain(const std::string& name) {
  std::string out;
  for (const char c : name.substr(0, 100)) {
    const bool safe =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
    out += safe ? c : '-';
  }
  return out;
}

std::string title(const GemmDevice& d) {
  return "tandem-gemm-choices 1 " + plain(d.name) + " " + std::to_string(d.capability) + " " +
         std::to_string(d.library) + "\n";
}

// Takes words off a text. A word that is not what is asked for makes everything after it fail.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  bool good() const { return good_; }
  bool at_end() const { return rest_.empty(); }

  std::string_view word() {
    const size_t end = rest_.find(' ');
    const std::string_view found = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    return found;
  }
  template <class T>
  T number(T most, int base = 10) {
    const std::string_view text = word();
    T value{};
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value, base);
    good_ = good_ && !text.empty() && error == std::errc() && at == end && value <= most;
    return value;
  }
  DType type() {
    const std::string_view text = word();
    for (const DType t : kTypes)
      if (text == name_of(t)) return t;
    good_ = false;
    return DType::kF32;
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

bool parse_line(std::string_view line, GemmChoiceMap& to) {
  constexpr int64_t kMost = int64_t{1} << 40;
  Words words(line);
  GemmKey key;
  for (int64_t* size : {&key.rows, &key.n, &key.k}) *size = words.number<int64_t>(kMost);
  key.type = words.type();
  key.out_type = words.type();
  key.bias = words.number<uint32_t>(1) != 0;
  key.relu = words.number<uint32_t>(1) != 0;
  key.x_alignment = words.number<uint32_t>(256);
  key.out_alignment = words.number<uint32_t>(256);
  GemmAlgorithm algorithm{};
  for (uint64_t& part : algorithm) part = words.number<uint64_t>(~uint64_t{0}, 16);
  if (!words.good() || !words.at_end() || to.size() >= kMaxChoices) return false;
  return key.rows > 0 && key.n > 0 && key.k > 0 && to.emplace(key, algorithm).second;
}

// The text up to its last line, if that line is the checksum of the rest.
std::optional<std::string_view> checked(std::string_view text) {
  constexpr std::string_view kLabel = "checksum ";
  constexpr size_t kLength = kLabel.size() + 17;
  if (text.size() < kLength) return std::nullopt;
  const std::string_view body = text.substr(0, text.size() - kLength);
  if (text.substr(body.size()) != std::string(kLabel) + hex(checksum(body)) + "\n")
    return std::nullopt;
  return body;
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// One process at a time writes; a lock that is not to be had for long is done without.
void lock(const Descriptor& folder) {
  for (int i = 0; i < 100 && ::flock(folder.fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

std::string print_choices(const GemmChoiceMap& choices, const GemmDevice& device) {
  std::string out = title(device);
  for (const auto& [key, algorithm] : choices) {
    for (const int64_t size : {key.rows, key.n, key.k})
      out.append(std::to_string(size)).append(" ");
    out.append(name_of(key.type)).append(" ").append(name_of(key.out_type));
    for (const uint32_t value :
         {uint32_t{key.bias}, uint32_t{key.relu}, key.x_alignment, key.out_alignment})
      out.append(" ").append(std::to_string(value));
    for (const uint64_t part : algorithm) out.append(" ").append(hex(part));
    out += "\n";
  }
  return out + "checksum " + hex(checksum(out)) + "\n";
}

std::optional<GemmChoiceMap> parse_choices(std::string_view text, const GemmDevice& device) {
  const auto body = checked(text);
  const std::string first = title(device);
  if (!body || !body->starts_with(first)) return std::nullopt;
  GemmChoiceMap out;
  for (size_t at = first.size(); at < body->size();) {
    const size_t end = body->find('\n', at);
    if (end == std::string_view::npos || !parse_line(body->substr(at, end - at), out))
      return std::nullopt;
    at = end + 1;
  }
  return out;
}

GemmChoices::GemmChoices(const fs::path& folder, GemmDevice device,
                         std::function<void(const std::string&)> warn)
    : device_(std::move(device)), warn_(std::move(warn)) {
  if (folder.empty()) return;
  file_ = folder / ("gemm-" + plain(device_.name) + "-" + std::to_string(device_.capability) + "-" +
                    std::to_string(device_.library) + ".txt");
  if (auto found = read()) choices_ = std::move(*found);
}

GemmChoices::~GemmChoices() {
  if (changed_) save();
}

const GemmAlgorithm* GemmChoices::find(const GemmKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

void GemmChoices::add(const GemmKey& key, const GemmAlgorithm& algorithm) {
  if (choices_.size() >= kMaxChoices) return;
  choices_[key] = algorithm;
  changed_ = true;
  if (std::chrono::steady_clock::now() - saved_ > kBetweenSaves) save();
}

void GemmChoices::save() {
  changed_ = false;
  saved_ = std::chrono::steady_clock::now();
  if (file_.empty()) return;
  std::error_code error;
  fs::create_directories(file_.parent_path(), error);  // if it fails, so does what follows
  const Descriptor folder{::open(file_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0) lock(folder);
  if (const auto theirs = read())
    for (const auto& [key, algorithm] : *theirs)
      if (choices_.size() < kMaxChoices) choices_.emplace(key, algorithm);
  write(print_choices(choices_, device_));
}

// Absent, without a word, where there is no file.
std::optional<GemmChoiceMap> GemmChoices::read() {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor d{::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
  if (d.fd < 0 && errno == ENOENT) return std::nullopt;
  struct stat status {};
  std::string text;
  const bool ours = d.fd >= 0 && ::fstat(d.fd, &status) == 0 && S_ISREG(status.st_mode) &&
                    status.st_uid == ::geteuid() &&
                    status.st_size <= static_cast<off_t>(kMaxFileBytes);
  if (ours) {
    text.resize(static_cast<size_t>(status.st_size));
    size_t have = 0;
    while (have < text.size()) {
      const ssize_t n = ::read(d.fd, text.data() + have, text.size() - have);
      if (n <= 0) break;
      have += static_cast<size_t>(n);
    }
    text.resize(have);
  }
  auto found = parse_choices(text, device_);
  if (!found) warn(told_unread_, file_.string() + " is not a file of choices, and is not used");
  return found;
}

void GemmChoices::write(const std::string& text) {
  std::string temporary = file_.string() + ".XXXXXX";
  const Descriptor d{::mkostemp(temporary.data(), O_CLOEXEC)};
  bool written = d.fd >= 0;
  for (size_t have = 0; written && have < text.size();) {
    const ssize_t n = ::write(d.fd, text.data() + have, text.size() - have);
    written = n > 0;
    have += written ? static_cast<size_t>(n) : 0;
  }
  if (written && ::rename(temporary.c_str(), file_.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  if (d.fd >= 0) ::unlink(temporary.c_str());
  warn(told_unwritten_, file_.string() + " cannot be written: " + why);
}

void GemmChoices::warn(bool& told, const std::string& what) {
  if (!std::exchange(told, true) && warn_) warn_(what);
}

}  // namespace tandem::cuda
