// Submits the texts of the command line, or files of sound (@FILE), to a running server and prints
// what comes back, as it comes.
#include <tandem/client.h>

#include <cstdio>
#include <vector>

using tandem::client::Client;
using tandem::client::ClientError;
using tandem::client::Prompt;
using tandem::client::RequestHandle;

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s host:port TEXT|@FILE...\n", argv[0]);
    return 2;
  }
  try {
    Client client = Client::connect({.address = argv[1], .name = "example"});
    std::vector<RequestHandle> requests;  // all at once: the server batches them
    for (int i = 2; i < argc; ++i)
      requests.push_back(client.submit(
          {.prompt = argv[i][0] == '@' ? Prompt::sound_file(argv[i] + 1) : Prompt(argv[i])}));
    for (RequestHandle& request : requests) {
      while (const auto chunk = request.next_chunk()) {
        for (const auto& output : chunk->outputs())
          if (output.index() == 0) std::fputs(output.text().c_str(), stdout);
        std::fflush(stdout);
      }
      std::putchar('\n');
    }
  } catch (const ClientError& e) {
    std::fprintf(stderr, "%s: %s\n", e.type().c_str(), e.what());
    return 1;
  }
  return 0;
}
