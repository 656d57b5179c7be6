// Beast's "Body" whose bytes go to a RequestBody as they come.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/optional.hpp>
#include <cstddef>
#include <cstdint>

#include "server/http/body/request_body.h"

namespace tandem::server {

struct BodySink {
  using value_type = RequestBody*;  // null: they are dropped

  class reader {
   public:
    template <bool kRequest, class Fields>
    reader(boost::beast::http::header<kRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& ec) {
      ec = {};
      std::size_t all = 0;
      for (const boost::asio::const_buffer b : boost::beast::buffers_range_ref(buffers)) {
        if (body_ != nullptr) body_->add({static_cast<const char*>(b.data()), b.size()});
        all += b.size();
      }
      return all;
    }
    void finish(boost::system::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

}  // namespace tandem::server
