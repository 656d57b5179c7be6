// libcurl's multi interface over epoll: only connections with news are looked at, so that the time
// of an event does not depend on how many others wait. Each request has a connection of its own
// while it runs, and leaves it to the next.
#include "launcher/bench/load.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "launcher/bench/answer.h"
#include "launcher/curl.h"
#include "runtime/version.h"

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostErrorBytes = 4096;
constexpr int kMostSentAtOnce = 8;
constexpr int kMostWaitMs = 200;  // then progress is shown again

struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct MimeDeleter {
  void operator()(curl_mime* mime) const { curl_mime_free(mime); }
};

bool is_loopback(const std::string& url) {
  const CurlUrl parsed(curl_url());
  curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0);
  const std::string host = part_of(parsed, CURLUPART_HOST);
  return host == "localhost" || host == "[::1]" || host.substr(0, 4) == "127.";
}

// What all requests to a target have in common.
void set_target(CURL* curl, const Target& target, const std::string& url) {
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  set(CURLOPT_USERAGENT, (std::string("tandem/") + kVersion).c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT_MS, std::lround(target.timeout * 1e3));
  if (is_loopback(url)) set(CURLOPT_PROXY, "");
  if (!target.ca_cert.empty())
    set(std::filesystem::is_directory(target.ca_cert) ? CURLOPT_CAPATH : CURLOPT_CAINFO,
        target.ca_cert.c_str());
  if (target.insecure) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

CurlList header_list(const Target& target, const char* content_type) {
  curl_slist* list = curl_slist_append(nullptr, "Expect:");  // no round trip for large bodies
  if (content_type != nullptr) list = curl_slist_append(list, content_type);
  for (const std::string& header : target.headers) list = curl_slist_append(list, header.c_str());
  return CurlList(list);
}

// The same for all requests that fail alike: without libcurl's counts of milliseconds and bytes.
std::string reason(CURL* curl, CURLcode code, const char* detail) {
  long error = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
  if (code == CURLE_OPERATION_TIMEDOUT) return "it took longer than --request-timeout";
  if (code == CURLE_COULDNT_CONNECT && error != 0)
    return "cannot connect: " + std::generic_category().message(static_cast<int>(error)) +
           (error == ECONNREFUSED ? "; start `tandem serve MODEL`, or give another --base-url"
                                  : "");
  return printable(*detail != 0 ? detail : curl_easy_strerror(code), 300);
}

// What both clients need once.
void set_up() {
  set_up_curl();
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
}

// As many files as the system lets this process have: each request under way is one.
void raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Load {
 public:
  Load(const Target& target, Api api, const std::vector<Job>& jobs, int max_concurrency,
       const std::function<void(size_t, size_t)>& progress)
      : target_(target),
        url_(url_of(target, target.path)),
        api_(api),
        jobs_(jobs),
        most_(max_concurrency > 0 ? static_cast<size_t>(max_concurrency) : jobs.size()),
        progress_(progress),
        json_headers_(header_list(target, "Content-Type: application/json")),
        form_headers_(header_list(target, nullptr)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        results_(jobs.size()) {
    set_up();
    raise_open_files();
    multi_.reset(curl_multi_init());
    if (epoll_ < 0 || !multi_) throw std::bad_alloc();
    curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &Load::watch);
    curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &Load::set_timer);
    curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
    // Idle connections that are kept: as many as may be under way.
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS,
                      static_cast<long>(std::min<size_t>(most_, 1 << 16)));
  }
  Load(const Load&) = delete;
  ~Load() {
    for (auto& [curl, transfer] : under_way_) curl_multi_remove_handle(multi_.get(), curl);
    under_way_.clear();
    multi_.reset();
    close(epoll_);
  }

  std::vector<BenchRequest> run() {
    begun_ = Clock::now();
    while (done_ < jobs_.size()) {
      send_due();
      wait();
      collect();
      progress_(done_, failed_);
    }
    return std::move(results_);
  }

 private:
  struct Transfer {
    Load* load;
    size_t number;  // of the job
    CurlEasy curl;
    std::unique_ptr<curl_mime, MimeDeleter> form;
    Answer answer;
    long status = 0;
    std::string error_body;  // its beginning
    double came = 0;         // its last bytes
    char why[CURL_ERROR_SIZE] = "";
  };

  double now() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  // A few at a time: libcurl begins with them in wait().
  void send_due() {
    for (int i = 0; i < kMostSentAtOnce && next_ < jobs_.size() && under_way_.size() < most_ &&
                    jobs_[next_].arrival <= now();
         ++i)
      send(next_++);
  }

  void send(size_t number) {
    CurlEasy easy;
    if (idle_.empty()) {
      easy.reset(curl_easy_init());
      if (!easy) throw std::bad_alloc();
    } else {
      easy = std::move(idle_.back());
      idle_.pop_back();
      curl_easy_reset(easy.get());
    }
    CURL* curl = easy.get();
    auto transfer = std::unique_ptr<Transfer>(
        new Transfer{this, number, std::move(easy), nullptr, Answer(api_), 0, {}, 0, ""});
    set_target(curl, target_, url_);
    const Job& job = jobs_[number];
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->why);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, transfer.get());
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Load::take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer.get());
    if (job.file) {
      transfer->form.reset(make_form(curl, job));
      curl_easy_setopt(curl, CURLOPT_MIMEPOST, transfer->form.get());
      curl_easy_setopt(curl, CURLOPT_HTTPHEADER, form_headers_.get());
    } else {
      curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(job.body.size()));
      curl_easy_setopt(curl, CURLOPT_POSTFIELDS, job.body.c_str());
      curl_easy_setopt(curl, CURLOPT_HTTPHEADER, json_headers_.get());
    }
    BenchRequest& request = results_[number];
    request.input_tokens = job.prompt_tokens;
    if (job.file) request.audio_seconds = job.file->seconds;
    under_way_.emplace(curl, std::move(transfer));
    request.sent = now();
    curl_multi_add_handle(multi_.get(), curl);
  }

  static curl_mime* make_form(CURL* curl, const Job& job) {
    curl_mime* form = curl_mime_init(curl);
    for (const auto& [name, value] : job.fields) {
      curl_mimepart* part = curl_mime_addpart(form);
      curl_mime_name(part, name.c_str());
      curl_mime_data(part, value.data(), value.size());
    }
    curl_mimepart* part = curl_mime_addpart(form);
    curl_mime_name(part, "file");
    curl_mime_filename(part, job.file->name.c_str());
    curl_mime_type(part, job.file->type.c_str());
    curl_mime_data(part, job.file->bytes.data(), job.file->bytes.size());
    return form;
  }

  // From the next timer or arrival, in whole milliseconds.
  int wait_ms() const {
    auto until = Clock::now() + std::chrono::milliseconds(kMostWaitMs);
    if (timer_) until = std::min(until, *timer_);
    if (next_ < jobs_.size() && under_way_.size() < most_)
      until = std::min(until, begun_ + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(jobs_[next_].arrival)));
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    return static_cast<int>(std::max<int64_t>(0, time.count()));
  }

  void wait() {
    std::array<epoll_event, 256> events;
    const int count = epoll_wait(epoll_, events.data(), events.size(), wait_ms());
    int running = 0;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      int what = 0;
      if ((event.events & (EPOLLIN | EPOLLHUP)) != 0) what |= CURL_CSELECT_IN;
      if ((event.events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
      if ((event.events & EPOLLERR) != 0) what |= CURL_CSELECT_ERR;
      curl_multi_socket_action(multi_.get(), event.data.fd, what, &running);
    }
    if (timer_ && *timer_ <= Clock::now()) {
      timer_.reset();
      curl_multi_socket_action(multi_.get(), CURL_SOCKET_TIMEOUT, 0, &running);
    }
  }

  static int watch(CURL*, curl_socket_t fd, int what, void* self, void*) {
    const int epoll = static_cast<Load*>(self)->epoll_;
    epoll_event event{};
    event.data.fd = fd;
    if (what == CURL_POLL_REMOVE) {
      epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &event);
      return 0;
    }
    if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) != 0 && errno == ENOENT)
      epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    return 0;
  }

  static int set_timer(CURLM*, long milliseconds, void* self) {
    auto& timer = static_cast<Load*>(self)->timer_;
    if (milliseconds < 0)
      timer.reset();
    else
      timer = Clock::now() + std::chrono::milliseconds(milliseconds);
    return 0;
  }

  // No exception may pass through libcurl's code.
  static size_t take(char* bytes, size_t, size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    Load& load = *transfer.load;
    BenchRequest& request = load.results_[transfer.number];
    transfer.came = load.now();
    try {
      if (transfer.status == 0)
        curl_easy_getinfo(transfer.curl.get(), CURLINFO_RESPONSE_CODE, &transfer.status);
      if (transfer.status == 200)
        transfer.answer.take({bytes, count}, transfer.came, request);
      else if (transfer.error_body.size() < kMostErrorBytes)
        transfer.error_body.append(bytes, count);
      return count;
    } catch (const std::exception& e) {
      request.failure = "stream";
      request.message = e.what();
      return 0;
    }
  }

  void collect() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;  // the message is gone with the handle
      auto node = under_way_.extract(message->easy_handle);
      Transfer& transfer = *node.mapped();
      curl_multi_remove_handle(multi_.get(), transfer.curl.get());
      BenchRequest& request = results_[transfer.number];
      finish(transfer, code, request);
      if (request.failed()) request.last = now();
      ++done_;
      failed_ += request.failed();
      idle_.push_back(std::move(transfer.curl));
    }
  }

  static void finish(Transfer& transfer, CURLcode code, BenchRequest& request) {
    if (request.failed()) return;
    long& status = transfer.status;
    curl_easy_getinfo(transfer.curl.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && (code == CURLE_OK || transfer.answer.complete()))
      return transfer.answer.end(transfer.came, request);
    if (code != CURLE_OK && (status == 0 || status == 200)) {
      request.failure = code == CURLE_OPERATION_TIMEDOUT ? "timeout" : "connection";
      request.message = reason(transfer.curl.get(), code, transfer.why);
      return;
    }
    request.failure = std::to_string(status);
    request.message = error_message(transfer.error_body);
    if (request.message.empty()) request.message = "without a message";
  }

  const Target& target_;
  const std::string url_;
  const Api api_;
  const std::vector<Job>& jobs_;
  const size_t most_;
  const std::function<void(size_t, size_t)>& progress_;
  const CurlList json_headers_, form_headers_;
  const int epoll_;
  std::unique_ptr<CURLM, MultiDeleter> multi_;
  std::unordered_map<CURL*, std::unique_ptr<Transfer>> under_way_;
  std::vector<CurlEasy> idle_;
  std::vector<BenchRequest> results_;
  std::optional<Clock::time_point> timer_;  // libcurl's
  Clock::time_point begun_;
  size_t next_ = 0, done_ = 0, failed_ = 0;  // jobs
};

size_t append_body(char* bytes, size_t, size_t count, void* body) {
  static_cast<std::string*>(body)->append(bytes, count);
  return count;
}

}  // namespace

std::vector<BenchRequest> run_load(const Target& target, Api api, const std::vector<Job>& jobs,
                                   int max_concurrency,
                                   const std::function<void(size_t, size_t)>& progress) {
  return Load(target, api, jobs, max_concurrency, progress).run();
}

std::string http_get(const Target& target, const std::string& path) {
  set_up();
  const std::string url = url_of(target, path);
  const CurlEasy curl(curl_easy_init());
  if (!curl) throw std::bad_alloc();
  set_target(curl.get(), target, url);
  const CurlList headers = header_list(target, nullptr);
  char why[CURL_ERROR_SIZE] = "";
  std::string body;
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &append_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &body);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK)
    throw InputError(ErrorKind::kUnavailable,
                     "--base-url: " + url + ": " + reason(curl.get(), code, why), "--base-url");
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != 200)
    throw InputError(
        ErrorKind::kUnavailable,
        "--base-url: " + url + " answers " + std::to_string(status) + ": " + error_message(body),
        "--base-url");
  return body;
}

}  // namespace tandem::bench
