// What the collectives must compute, written again from the rules and sharing nothing with the library.
//
// A reduction takes the ranks in order 0..n-1. Floats narrower than 64 bits accumulate in binary32, binary64 in
// itself, integers wrap; the result is rounded once. A scalar (1/n for avg, each rank's own for premulsum) is
// itself rounded to the element type, and so is each product with it. Compile without contraction of a*b+c
// (g++ -std=c++17 does): a fused product would not be rounded.
#pragma once

#include <nccl.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace reference {

enum class Op { Sum, Prod, Min, Max, Avg, PreMulSum };
inline constexpr Op OPS[] = {Op::Sum, Op::Prod, Op::Min, Op::Max, Op::Avg, Op::PreMulSum};

inline const char *name(Op op) {
  constexpr const char *names[] = {"sum", "prod", "min", "max", "avg", "premulsum"};
  return names[static_cast<int>(op)];
}

template <class To, class From>
To bit_cast(const From &from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// ---- Element types -------------------------------------------------------------------------------------------
// Each has Bits (what memory holds), Wide (what is accumulated), decode, encode (rounding once) and is_nan.

template <class T>
struct Integer {
  using Bits = T;
  using Wide = T;
  static constexpr bool is_float = false;
  static Wide decode(Bits bits) { return bits; }
  static Bits encode(Wide value) { return value; }
  static bool is_nan(Bits) { return false; }
  static std::string text(Bits bits) { return std::to_string(bits); }
};

template <class T, class B>
struct Native {
  using Bits = B;
  using Wide = T;
  static constexpr bool is_float = true;
  static Wide decode(Bits bits) { return bit_cast<T>(bits); }
  static Bits encode(Wide value) { return bit_cast<B>(value); }
  static bool is_nan(Bits bits) { return std::isnan(decode(bits)); }
  static std::string text(Bits bits) { return std::to_string(decode(bits)); }
};

// A float of 8 or 16 bits: sign, `EXPONENT` bits, `MANTISSA` bits. `MAX` is the largest finite code; where
// `SATURATES`, larger values become it, otherwise infinity, the code after it.
template <class B, int EXPONENT, int MANTISSA, unsigned MAX, unsigned NOT_A_NUMBER, bool SATURATES>
struct Small {
  using Bits = B;
  using Wide = float;
  static constexpr bool is_float = true;
  static constexpr int bits = 1 + EXPONENT + MANTISSA;
  static constexpr int bias = (1 << (EXPONENT - 1)) - 1;
  static constexpr int exponent_min = 1 - bias;
  static constexpr unsigned sign_bit = 1u << (bits - 1);
  // Codes above MAX: infinity where MAX + 1 is it (mantissa 0), NaN otherwise.
  static constexpr bool has_infinity = ((MAX + 1) & ((1u << MANTISSA) - 1)) == 0;

  static float decode_code(unsigned code) {
    const unsigned magnitude = code & (sign_bit - 1);
    const int exponent = static_cast<int>(magnitude >> MANTISSA);
    const int mantissa = static_cast<int>(magnitude & ((1u << MANTISSA) - 1));
    float value;
    if (magnitude > MAX)
      value = has_infinity && magnitude == MAX + 1 ? std::numeric_limits<float>::infinity()
                                                   : std::numeric_limits<float>::quiet_NaN();
    else if (exponent == 0)
      value = std::ldexp(static_cast<float>(mantissa), exponent_min - MANTISSA);
    else
      value = std::ldexp(static_cast<float>(mantissa + (1 << MANTISSA)), exponent - bias - MANTISSA);
    return code & sign_bit ? -value : value;
  }

  static float decode(Bits code) {
    static const std::vector<float> table = [] {
      std::vector<float> values(std::size_t{1} << bits);
      for (unsigned code = 0; code < values.size(); ++code) values[code] = decode_code(code);
      return values;
    }();
    return table[code];
  }

  // To the nearest code, ties to the even one.
  static Bits encode(float value) {
    const std::uint32_t wide = bit_cast<std::uint32_t>(value);
    const unsigned sign = wide >> 31 ? sign_bit : 0;
    if (std::isnan(value)) return static_cast<Bits>(NOT_A_NUMBER);
    if (std::isinf(value)) return static_cast<Bits>(sign | (SATURATES ? MAX : MAX + 1));
    const int field = static_cast<int>((wide >> 23) & 0xff);
    const int exponent = field == 0 ? -126 : field - 127;
    const std::uint32_t mantissa = (wide & 0x7fffff) | (field == 0 ? 0 : 0x800000);
    // Below the smallest normal the step between codes stays the same, so more bits fall off.
    const int below = exponent < exponent_min ? exponent_min - exponent : 0;
    const int dropped = 23 - MANTISSA + below;
    if (dropped > 25) return static_cast<Bits>(sign);
    std::uint32_t kept = mantissa >> dropped;
    const std::uint32_t rest = mantissa & ((1u << dropped) - 1);
    const std::uint32_t half = 1u << (dropped - 1);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    // A carry out of the mantissa moves into the exponent by itself.
    const unsigned code = (static_cast<unsigned>(exponent + below - exponent_min) << MANTISSA) + kept;
    return static_cast<Bits>(sign | (code <= MAX ? code : SATURATES ? MAX : MAX + 1));
  }

  static bool is_nan(Bits code) { return std::isnan(decode(code)); }
  static std::string text(Bits code) { return std::to_string(decode(code)); }
};

using Float16 = Small<std::uint16_t, 5, 10, 0x7bff, 0x7e00, false>;
using BFloat16 = Small<std::uint16_t, 8, 7, 0x7f7f, 0x7fc0, false>;
using Float8E4M3 = Small<std::uint8_t, 4, 3, 0x7e, 0x7f, true>;
using Float8E5M2 = Small<std::uint8_t, 5, 2, 0x7b, 0x7f, true>;
using Float32 = Native<float, std::uint32_t>;
using Float64 = Native<double, std::uint64_t>;

// ---- Inputs --------------------------------------------------------------------------------------------------
// Element i of rank r is the same whatever is sent and however much of it, so one reduction serves every size.

inline std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

enum class Inputs { Numbers, NumbersAndNaN };

template <class T>
typename T::Bits input(int rank, std::size_t index, Inputs inputs) {
  const std::uint64_t random = scramble(static_cast<std::uint64_t>(rank) << 40 | index);
  if constexpr (!T::is_float) {
    // Mostly small, sometimes anything, so that sums wrap.
    if (random % 16 == 0) return static_cast<typename T::Bits>(random >> 4);
    return static_cast<typename T::Bits>(static_cast<std::int64_t>((random >> 4) % 201) - 100);
  } else {
    using Wide = typename T::Wide;
    // A NaN at one rank loses to the others' numbers; a NaN at all of them stays.
    if (inputs == Inputs::NumbersAndNaN && (random % 11 == 0 || index % 101 == 7))
      return T::encode(std::numeric_limits<Wide>::quiet_NaN());
    if (index % 17 == 3) return T::encode(random & 1 ? Wide(0) : -Wide(0));
    const double unit = static_cast<double>(random >> 11) / 9007199254740992.0;  // 2^53
    // Some so small that binary16 has no normal number for them.
    const double scale = index % 13 == 5 ? 1.0 / 65536 : 1.0;
    return T::encode(static_cast<Wide>((unit * 8 - 4) * scale));
  }
}

// The scalar rank `rank` gives to premulsum.
template <class T>
typename T::Bits scalar(int rank) {
  if constexpr (T::is_float)
    return T::encode(static_cast<typename T::Wide>(1.0 / (rank + 3)));
  else
    return static_cast<typename T::Bits>(rank + 2);
}

// ---- Reductions ----------------------------------------------------------------------------------------------

template <class T>
T wrap(std::uint64_t value) {
  return static_cast<T>(value);
}

template <class W>
W add(W a, W b) {
  if constexpr (std::is_integral_v<W>)
    return wrap<W>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}

template <class W>
W multiply(W a, W b) {
  if constexpr (std::is_integral_v<W>)
    return wrap<W>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

// The smaller one; a number beats NaN, and -0 is smaller than +0.
template <class W>
W smaller(W a, W b) {
  if constexpr (!std::is_integral_v<W>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class W>
W larger(W a, W b) {
  if constexpr (!std::is_integral_v<W>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class W>
W combine(Op op, W a, W b) {
  switch (op) {
    case Op::Prod: return multiply(a, b);
    case Op::Min: return smaller(a, b);
    case Op::Max: return larger(a, b);
    default: return add(a, b);
  }
}

// `contributions[r][i]` reduced over r, for every i.
template <class T>
std::vector<typename T::Bits> reduce(Op op, const std::vector<std::vector<typename T::Bits>> &contributions) {
  using Bits = typename T::Bits;
  using Wide = typename T::Wide;
  const int ranks = static_cast<int>(contributions.size());
  const std::size_t count = contributions[0].size();
  const bool scaled = op == Op::PreMulSum || (op == Op::Avg && T::is_float);
  std::vector<Wide> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    Wide factor{};
    if (op == Op::PreMulSum) factor = T::decode(scalar<T>(rank));
    if constexpr (T::is_float)
      if (op == Op::Avg) factor = T::decode(T::encode(Wide(1) / static_cast<Wide>(ranks)));
    const std::vector<Bits> &mine = contributions[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < count; ++i) {
      Wide value = T::decode(mine[i]);
      if (scaled) value = T::decode(T::encode(multiply(value, factor)));
      sum[i] = rank == 0 ? value : combine(op, sum[i], value);
    }
  }
  std::vector<Bits> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    Wide value = sum[i];
    if constexpr (!T::is_float) {
      // Unsigned sums divide as such; signed ones toward zero.
      using Largest = std::conditional_t<std::is_signed_v<Wide>, std::int64_t, std::uint64_t>;
      if (op == Op::Avg) value = static_cast<Wide>(static_cast<Largest>(value) / static_cast<Largest>(ranks));
    }
    result[i] = T::encode(value);
  }
  return result;
}

}  // namespace reference
