// One answer per question of probe_table.inc, which the build script writes from the Rust tables.
#include "fakegpu-cpp/src/probe.h"

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "fakegpu-cpp/src/lib.rs.h"

namespace fakegpu {
namespace {

template <class Return, class... Parameters>
constexpr std::int64_t parameters(Return (*)(Parameters...)) {
  return sizeof...(Parameters);
}

// Offsets mean something only for types that C could have.
#define STRUCT(type) static_assert(std::is_standard_layout<type>::value && std::is_trivial<type>::value, #type);
#define FIELD(type, member)
#define VALUE(enumerator)
#define TWINS(function, twin) static_assert(std::is_same<decltype(&function), decltype(&twin)>::value, #function);
#define PARAMETERS(function)
#include "probe_table.inc"
#undef STRUCT
#undef FIELD
#undef VALUE
#undef TWINS
#undef PARAMETERS

}  // namespace

rust::Vec<Answer> answers() {
  rust::Vec<Answer> all;
#define STRUCT(type) all.push_back({#type, sizeof(type), 0});
#define FIELD(type, member) all.push_back({#type "." #member, sizeof(type::member), offsetof(type, member)});
#define VALUE(enumerator) all.push_back({#enumerator, 0, enumerator});
#define TWINS(function, twin)
#define PARAMETERS(function) all.push_back({#function, 0, parameters(static_cast<decltype(&function)>(nullptr))});
#include "probe_table.inc"
  return all;
}

}  // namespace fakegpu
