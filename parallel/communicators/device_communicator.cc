// Device tensors go through the plugin's collectives, host tensors through the host's group.
#include "parallel/communicators/device_communicator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/core/plugin.h"

namespace tandem {
namespace {

class DeviceGroup final : public Communicator {
 public:
  DeviceGroup(std::shared_ptr<Communicator> host, std::unique_ptr<DeviceCommunicator> devices,
              DeviceBackend& backend)
      : host_(std::move(host)), devices_(std::move(devices)), backend_(backend) {
    watch_ = backend_.watch([this](std::chrono::nanoseconds waited) {
      failures_told([&] { devices_->check(waited); });
    });
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const char* transport() const override { return devices_->transport(); }
  void all_reduce(const Tensor& x) override {
    if (on_host(x)) return host_->all_reduce(x);
    failures_told([&] { devices_->all_reduce(x); });
    count(x);
  }
  void all_gather(const Tensor& x, const Tensor& out) override {
    if (on_host(x)) return host_->all_gather(x, out);
    failures_told([&] { devices_->all_gather(x, out); });
    count(x);
  }
  void all_to_all(const Tensor& x, const Tensor& out) override {
    if (on_host(x)) return host_->all_to_all(x, out);
    failures_told([&] { exchange_parts(x, out); });
    count(x);
  }
  void broadcast(const Tensor& x, int root) override {
    if (on_host(x)) return host_->broadcast(x, root);
    failures_told([&] { devices_->broadcast(x, root); });
    count(x);
  }
  void send(const Tensor& x, int to) override {
    if (on_host(x)) return host_->send(x, to);
    failures_told([&] { devices_->send(x, to); });
    count(x);
  }
  void receive(const Tensor& x, int from) override {
    if (on_host(x)) return host_->receive(x, from);
    failures_told([&] { devices_->receive(x, from); });
    count(x);
  }
  void barrier() override { host_->barrier(); }
  void abort() override {
    host_->abort();
    devices_->abort();
  }
  // Waiting is the device's; its time is not the host's to tell.
  CommunicatorStats stats() const override { return stats_; }

 private:
  static bool on_host(const Tensor& x) { return x.device() == Device::kCpu; }
  static Tensor as_matrix(const Tensor& x) {
    return x.reshape({x.dim(0), x.size() / std::max<int64_t>(1, x.dim(0))});
  }
  // Everything is gathered, and each rank keeps its parts: the plugin's groups know no other
  // exchange, and what devices have to send each other so is small.
  void exchange_parts(const Tensor& x, const Tensor& out) {
    TANDEM_CHECK_EQ(x.dim(0) % size(), int64_t{0});
    TANDEM_CHECK_EQ(x.bytes(), out.bytes());
    const int64_t rows = x.dim(0), part = rows / size();
    if (x.size() == 0) return;
    Shape shape = x.shape();
    shape[0] *= size();
    const Tensor all = backend_.scratch(shape, x.dtype());
    devices_->all_gather(x, all);
    for (int r = 0; r < size(); ++r) {
      const int64_t from = r * rows + rank() * part;
      backend_.copy_matrix(as_matrix(all.rows(from, from + part)),
                           as_matrix(out.rows(r * part, (r + 1) * part)));
    }
  }
  void count(const Tensor& x) {
    ++stats_.calls;
    stats_.bytes += static_cast<int64_t>(x.bytes());
  }
  template <class Call>
  void failures_told(const Call& call) const {
    try {
      call();
    } catch (const std::exception& e) {
      throw CommunicatorError("rank " + std::to_string(rank()) + " of " + std::to_string(size()) +
                              ": " + e.what());
    }
  }

  std::shared_ptr<Communicator> host_;
  std::unique_ptr<DeviceCommunicator> devices_;
  DeviceBackend& backend_;
  std::shared_ptr<void> watch_;
  CommunicatorStats stats_;
};

}  // namespace

std::shared_ptr<Communicator> make_device_group(Context& ctx, std::shared_ptr<Communicator> host,
                                                std::chrono::milliseconds timeout,
                                                DeviceGroupUse use) {
  const DevicePlugin* plugin = cuda_plugin();
  TANDEM_CHECK(plugin != nullptr && !ctx.on_cpu());
  // The first rank's id is everybody's. Its length travels first: it is "" without a library.
  std::string id = host->rank() == 0 ? plugin->make_group_id() : std::string();
  int32_t length = static_cast<int32_t>(id.size());
  host->broadcast(Tensor::borrow(&length, {1}, DType::kI32), 0);
  if (length == 0) return nullptr;
  id.resize(static_cast<size_t>(length));
  host->broadcast(Tensor::borrow(id.data(), {length}, DType::kU8), 0);
  auto devices = plugin->make_communicator(ctx.backend(), id, host->rank(), host->size(),
                                           std::chrono::duration<double>(timeout).count(),
                                           use == DeviceGroupUse::kSums);
  return std::make_shared<DeviceGroup>(std::move(host), std::move(devices), ctx.backend());
}

}  // namespace tandem
