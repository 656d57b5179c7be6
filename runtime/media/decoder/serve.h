// The program's life: job after job.
#pragma once

namespace tandem::decoder {

// Over the socket that is standard input, until it is closed. Returns the exit status.
int serve();

}  // namespace tandem::decoder
