#include "fail.hpp"

#include <cstdio>
#include <cstdlib>

namespace perf {

void fail(const std::string &sentence) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::_Exit(1);
}

void check(ncclResult_t result, const std::string &call) {
  if (result == ncclSuccess) return;
  const char *text = ncclGetLastError(nullptr);
  fail(call + " returned " + std::to_string(result) + ", " + ncclGetErrorString(result) + ": " +
       (text != nullptr && *text != '\0' ? text : "(no text)"));
}

}  // namespace perf
