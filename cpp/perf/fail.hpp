// How a client gives up.
#pragma once

#include <nccl.h>

#include <string>

namespace perf {

// Ends the process with a sentence and exit code 1. Other threads may still be in a call: nothing is taken down.
[[noreturn]] void fail(const std::string &sentence);

// Fails with NCCL's words unless the call succeeded.
void check(ncclResult_t result, const std::string &call);

}  // namespace perf
