// The server's certificate and key.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "server/http/config.h"

namespace tandem::server {

// Null: the server speaks no TLS. Throws InputError naming the flag.
std::unique_ptr<boost::asio::ssl::context> tls_context(const ServerConfig& config);

}  // namespace tandem::server
