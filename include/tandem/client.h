// Tandem's client library: requests to a server, streams and results back. docs/client.md
//
//   find_package(Tandem)                  # target Tandem::client
//
// Everything is in the namespace tandem::client.
#pragma once

#include "client/tandem_client.h"  // IWYU pragma: export
