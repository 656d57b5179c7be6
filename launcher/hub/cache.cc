// HuggingFace's cache on disk (cache.h). Whatever another process reads appears whole.
#include "launcher/hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/json.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw cannot_write(folder, error.value());
}

bool is_same_file(int fd, const fs::path& file) {
  struct stat mine {
  }, there{};
  return fstat(fd, &mine) == 0 && stat(file.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

// "a--b" of "a/b".
std::string folder_name(const std::string& repository) {
  std::string name = repository;
  const size_t slash = name.find('/');
  if (slash != std::string::npos) name.replace(slash, 1, "--");
  return "models--" + name;
}

}  // namespace

InputError cannot_write(const fs::path& file, int error) {
  return model_error(ErrorKind::kResource,
                     "cannot write " + file.string() + ": " + std::strerror(error) +
                         " (--download-dir, HF_HUB_CACHE or HF_HOME name another folder)");
}

FileLock::FileLock(const fs::path& file, const Hooks& hooks) {
  make_folder(file.parent_path());
  for (bool told = false; !try_lock(file, hooks); told = true) {
    if (!told) hooks.warn("waiting for another process, which downloads the same file");
    hooks.check();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FileLock::~FileLock() { close(fd_); }

bool FileLock::try_lock(const fs::path& file, const Hooks& hooks) {
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw cannot_write(file, errno);
  const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
  const int why = errno;
  // Its last owner may have removed it meanwhile.
  if (locked ? is_same_file(fd, file) : why != EWOULDBLOCK && why != EINTR) {
    // Without locks, two writers of one file are found out by its checksum.
    if (!locked) hooks.warn("no lock of " + file.string() + ": " + std::strerror(why));
    fd_ = fd;
    return true;
  }
  close(fd);
  return false;
}

Cache::Cache(fs::path root, const std::string& repository)
    : root_(std::move(root)),
      folder_(root_ / folder_name(repository)),
      locks_(root_ / ".locks" / folder_name(repository)) {}

fs::path Cache::snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }
fs::path Cache::blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
fs::path Cache::lock_file(const std::string& etag) const { return locks_ / (etag + ".lock"); }

bool Cache::has(const std::string& commit, const std::string& file) const {
  std::error_code error;
  return fs::is_regular_file(snapshot(commit) / file, error);  // behind the link
}

std::optional<std::string> Cache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  std::ifstream in(folder_ / "refs" / revision, std::ios::binary);
  std::array<char, 41> text{};
  in.read(text.data(), text.size());
  std::string commit(text.data(), static_cast<size_t>(in.gcount()));
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  if (!is_commit(commit)) return std::nullopt;
  return commit;
}

void Cache::make_folders(const std::string& commit) const {
  make_folder(folder_ / "blobs");
  make_folder(snapshot(commit));
}

void Cache::remember(const std::string& revision, const std::string& commit) const {
  if (revision == commit || commit_of(revision) == commit) return;
  const fs::path file = folder_ / "refs" / revision;
  make_folder(file.parent_path());
  const fs::path partial = file.string() + "." + std::to_string(getpid());
  errno = 0;
  std::ofstream out(partial, std::ios::binary);
  out << commit;
  out.close();
  if (out && std::rename(partial.c_str(), file.c_str()) == 0) return;
  const int why = errno;
  std::remove(partial.c_str());
  throw cannot_write(file, why);
}

void Cache::link(const std::string& commit, const std::string& file,
                 const std::string& etag) const {
  const fs::path link = snapshot(commit) / file;
  const fs::path target = fs::path("../../blobs") / etag;
  const fs::path partial = link.string() + "." + std::to_string(getpid());
  std::error_code error;
  fs::remove(partial, error);
  // Renamed over what may be there: nobody sees the name without its file.
  fs::create_symlink(target, partial, error);
  if (!error) fs::rename(partial, link, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(partial, ignored);
  // A file system without links.
  fs::copy_file(blob(etag), partial, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(partial, link, error);
  if (error) throw cannot_write(link, error.value());
}

void Cache::note_absent(const std::string& commit, const std::string& file) const {
  std::error_code ignored;
  const fs::path note = folder_ / ".no_exist" / commit / file;
  fs::create_directories(note.parent_path(), ignored);
  std::ofstream(note, std::ios::app);
}

std::string missing_from(const fs::path& snapshot, ModelFiles part) {
  std::error_code error;
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(snapshot, error))
    if (entry.is_regular_file(error)) there.insert(entry.path().filename().string());
  const auto have = [&](const char* name) { return there.count(name) > 0; };
  if (!have("config.json")) return "config.json";
  if (part == ModelFiles::kTokenizer) {
    for (const char* model :
         {"tokenizer.json", "source.spm", "spiece.model", "sentencepiece.bpe.model"})
      if (have(model)) return {};
    return have("vocab.json") && have("merges.txt") ? "" : "tokenizer.json";
  }
  for (const char* kind : {"model.safetensors", "pytorch_model.bin"}) {
    const std::string index = std::string(kind) + ".index.json";
    if (have(kind)) return {};
    if (!have(index.c_str())) continue;
    const nlohmann::json document = load_json(snapshot / index);
    if (!document.is_object() || !document.contains("weight_map")) return {};
    for (const auto& shard : document["weight_map"])
      if (shard.is_string() && !have(shard.get_ref<const std::string&>().c_str()))
        return shard.get<std::string>();
    return {};
  }
  return "model.safetensors";
}

}  // namespace tandem::hub
