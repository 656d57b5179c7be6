// What the hub's answers say.
#pragma once

#include <set>
#include <string>

#include "launcher/hub/download.h"

namespace tandem::hub {

// A model as the user named it, and where it is looked for.
struct Repository {
  std::string id, revision, endpoint;
  std::string described() const;  // "org/name" (revision main)
};

struct Listing {
  std::string commit;
  std::set<std::string> files;  // names with folders, as the server has them
};

// Throws InputError if it is not the answer of a hub.
Listing parse_listing(const std::string& body, const Repository& repository);
// Of the answer to HEAD for a file of the commit. Throws InputError likewise.
RemoteFile parse_file_head(const Response& answer, const std::string& name, const std::string& url,
                           const std::string& commit);
// What a status tells the user; has_token: one was sent.
InputError status_error(const Response& answer, const Repository& repository, bool has_token);

}  // namespace tandem::hub
