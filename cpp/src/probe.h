// Asks the compiler about nccl.h on behalf of the crate's test.
#pragma once

#include "rust/cxx.h"

namespace fakegpu {

struct Answer;
rust::Vec<Answer> answers();

}  // namespace fakegpu
