// Element types as bits, for host and kernels alike: plain integer and float arithmetic, so that a kernel of them
// needs no library of a vendor's and is the same code as the host's.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PERF_BOTH __host__ __device__ inline
#else
#define PERF_BOTH inline
#endif

namespace perf {

template <class To, class From>
PERF_BOTH To bit_cast(const From &from) {
  static_assert(sizeof(To) == sizeof(From), "only the type changes");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Each type has Bits (what memory holds) and Value (what its numbers are computed in). `precision` counts the bits of
// integers that it holds exactly; 0 for integers, which wrap.

template <class T>
struct Integer {
  using Bits = T;
  using Value = T;
  static constexpr bool is_float = false;
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int precision = 0;
  PERF_BOTH static Value decode(Bits bits) { return bits; }
  PERF_BOTH static Bits encode(Value value) { return value; }
  PERF_BOTH static Bits finite(Bits bits) { return bits; }
};

// A float of at most 32 bits: `EXPONENT` bits of exponent and `MANTISSA` of mantissa. Where `HAS_INFINITY`, the
// largest exponent means infinity and NaN; otherwise only all ones is NaN.
template <class B, int EXPONENT, int MANTISSA, bool HAS_INFINITY>
struct Small {
  using Bits = B;
  using Value = double;
  static constexpr bool is_float = true;
  static constexpr bool is_signed = true;
  static constexpr int precision = MANTISSA + 1;
  static constexpr int bias = (1 << (EXPONENT - 1)) - 1;
  static constexpr std::uint32_t sign_bit = std::uint32_t{1} << (EXPONENT + MANTISSA);
  static constexpr std::uint32_t mantissa_bits = (std::uint32_t{1} << MANTISSA) - 1;
  static constexpr std::uint32_t exponent_bits = (sign_bit - 1) & ~mantissa_bits;

  PERF_BOTH static double power_of_two(int exponent) {
    return bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }

  PERF_BOTH static bool is_finite(std::uint32_t bits) {
    const std::uint32_t largest = HAS_INFINITY ? exponent_bits : sign_bit - 1;
    return (bits & largest) != largest;
  }

  PERF_BOTH static double decode(Bits code) {
    const std::uint32_t bits = code, mantissa = bits & mantissa_bits;
    const std::uint64_t sign = bits & sign_bit ? std::uint64_t{1} << 63 : 0;
    const int exponent = static_cast<int>((bits & exponent_bits) >> MANTISSA);
    if (!is_finite(bits)) {
      const bool infinite = HAS_INFINITY && mantissa == 0;
      return bit_cast<double>(sign | (infinite ? 0x7ff0000000000000 : 0x7ff8000000000000));
    }
    const double magnitude = exponent == 0
                                 ? mantissa * power_of_two(1 - bias - MANTISSA)
                                 : (mantissa | (mantissa_bits + 1)) * power_of_two(exponent - bias - MANTISSA);
    return sign ? -magnitude : magnitude;
  }

  // Of a value that the type holds exactly and that is zero or normal in it; inputs are no others.
  PERF_BOTH static Bits encode(double value) {
    const std::uint64_t bits = bit_cast<std::uint64_t>(value);
    if (value == 0) return 0;
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
    const auto mantissa = static_cast<std::uint32_t>((bits & 0xfffffffffffff) >> (52 - MANTISSA));
    const std::uint32_t sign = bits >> 63 ? sign_bit : 0;
    return static_cast<Bits>(sign | (static_cast<std::uint32_t>(exponent + bias) << MANTISSA) | mantissa);
  }

  // A number instead of any bits: no NaN, no infinity, and only one zero.
  PERF_BOTH static Bits finite(Bits code) {
    std::uint32_t bits = code;
    if (!is_finite(bits)) bits &= ~(std::uint32_t{1} << (EXPONENT + MANTISSA - 1));
    return static_cast<Bits>(bits == sign_bit ? 0 : bits);
  }
};

struct Float64 {
  using Bits = std::uint64_t;
  using Value = double;
  static constexpr bool is_float = true;
  static constexpr bool is_signed = true;
  static constexpr int precision = 53;
  static constexpr int bias = 1023;
  PERF_BOTH static double decode(Bits bits) { return bit_cast<double>(bits); }
  PERF_BOTH static Bits encode(double value) { return value == 0 ? 0 : bit_cast<Bits>(value); }
  PERF_BOTH static Bits finite(Bits bits) {
    if ((bits & 0x7ff0000000000000) == 0x7ff0000000000000) bits &= ~0x4000000000000000;
    return bits << 1 == 0 ? 0 : bits;
  }
};

using Float16 = Small<std::uint16_t, 5, 10, true>;
using BFloat16 = Small<std::uint16_t, 8, 7, true>;
using Float32 = Small<std::uint32_t, 8, 23, true>;
using Float8E4M3 = Small<std::uint8_t, 4, 3, false>;
using Float8E5M2 = Small<std::uint8_t, 5, 2, true>;

// The table of types: name, NCCL's code, implementation.
#define PERF_TYPES(ROW)                             \
  ROW(int8, ncclInt8, Integer<std::int8_t>)         \
  ROW(uint8, ncclUint8, Integer<std::uint8_t>)      \
  ROW(int32, ncclInt32, Integer<std::int32_t>)      \
  ROW(uint32, ncclUint32, Integer<std::uint32_t>)   \
  ROW(int64, ncclInt64, Integer<std::int64_t>)      \
  ROW(uint64, ncclUint64, Integer<std::uint64_t>)   \
  ROW(half, ncclFloat16, Float16)                   \
  ROW(float, ncclFloat32, Float32)                  \
  ROW(double, ncclFloat64, Float64)                 \
  ROW(bfloat16, ncclBfloat16, BFloat16)             \
  ROW(f8e4m3, ncclFloat8e4m3, Float8E4M3)           \
  ROW(f8e5m2, ncclFloat8e5m2, Float8E5M2)

struct Type {
  const char *name;
  ncclDataType_t code;
  std::size_t size;
};

inline constexpr Type TYPES[] = {
#define ROW(name, code, T) {#name, code, sizeof(T::Bits)},
    PERF_TYPES(ROW)
#undef ROW
};

// Calls `visit` with a value of the implementation of `code`.
template <class Visit>
void with_type(ncclDataType_t code, Visit visit) {
  switch (code) {
#define ROW(name, code, T) \
  case code: return visit(T{});
    PERF_TYPES(ROW)
#undef ROW
    default: return;
  }
}

}  // namespace perf
