// What ranks contribute and what must come out of it, element by element, for host and kernels alike.
//
// Every element is a hash of (rank, index, seed), cut to values whose result is known whatever the order and the
// precision in which a library combines them:
//
//   moved      any bits; they arrive as they were
//   sum        integers wrap. Floats: small integers from so few ranks an index that every partial sum is exact
//   mulsum     as sum, from half as many ranks; the ranks' scalars are 1 and 2
//   prod       integers: odd numbers, so that a wrapped product is never zero. Floats: one factor with a fraction
//              and five of 2 or 1/2, the others 1 or -1
//   min, max   any numbers, no NaN
//   avg        integers: as small a sum as fits, then a division toward zero. Floats: a tolerance, see `tolerance`
//
// All but avg of floats must be exact.
#pragma once

#include "element.hpp"

namespace perf {

enum class Combine { Moved, Sum, Prod, Min, Max, Avg, MulSum };

// What an element is a function of, besides rank and index. Kernels take it by value.
struct Recipe {
  Combine combine;
  int ranks;
  std::uint64_t seed;
};

// In place of a rank: the contributions of all ranks, combined.
inline constexpr int ALL_RANKS = -1;

PERF_BOTH std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The scalar that a rank gives to mulsum.
PERF_BOTH int scalar(int rank) { return 1 + rank % 2; }

// One index of a recipe, as all ranks see it.
template <class T>
class Element {
 public:
  using Bits = typename T::Bits;
  using Value = typename T::Value;

  PERF_BOTH Element(const Recipe &recipe, std::uint64_t index)
      : recipe_(recipe), hash_(scramble(recipe.seed ^ index * 0xd1342543de82ef95)) {
    shift_ = static_cast<int>((hash_ >> 33) % static_cast<std::uint32_t>(recipe.ranks));
  }

  PERF_BOTH Bits input(int rank) const {
    const std::uint64_t random = random_of(rank);
    switch (recipe_.combine) {
      case Combine::Moved: return static_cast<Bits>(random);
      case Combine::Min:
      case Combine::Max: return T::finite(static_cast<Bits>(random));
      case Combine::Prod:
        if constexpr (T::is_float) return T::encode(factor(rank, random));
        return static_cast<Bits>(random | 1);
      case Combine::Avg: return T::encode(static_cast<Value>(small(rank, random)));
      default:
        if constexpr (T::is_float) return T::encode(static_cast<Value>(small(rank, random)));
        return static_cast<Bits>(random);
    }
  }

  PERF_BOTH bool is_input(Bits got, int rank) const { return got == input(rank); }

  // Whether `got` is what all ranks' inputs combine to.
  PERF_BOTH bool is_result(Bits got) const {
    if constexpr (T::is_float) {
      const double value = T::decode(got), expected = float_result();
      if (recipe_.combine != Combine::Avg) return value == expected;
      const double off = value - expected;
      return (off < 0 ? -off : off) <= tolerance();
    } else {
      return got == integer_result();
    }
  }

 private:
  PERF_BOTH std::uint64_t random_of(int rank) const {
    return scramble(hash_ + static_cast<std::uint64_t>(rank) * 0xa24baed4963ee407);
  }

  // Ranks stand in another order at each index; the first few of them are active.
  PERF_BOTH int slot(int rank) const {
    const int at = rank + shift_;
    return at >= recipe_.ranks ? at - recipe_.ranks : at;
  }

  // The largest magnitude of `small` and how many ranks have one: their product is what the type counts up to exactly.
  PERF_BOTH static constexpr int largest() {
    if (T::precision == 0) return 3;
    return T::precision <= 3 ? 2 : T::precision <= 4 ? 4 : T::precision <= 8 ? 8 : T::precision <= 11 ? 16 : 1024;
  }
  PERF_BOTH int active() const {
    if (T::precision == 0) return 32;  // 32 * 3 fits into 8 signed bits
    const int exact = (1 << (T::precision < 24 ? T::precision : 24)) / largest();
    return recipe_.combine == Combine::Sum ? exact : exact / 2;
  }

  PERF_BOTH int small(int rank, std::uint64_t random) const {
    if (slot(rank) >= active()) return 0;
    const auto bits = static_cast<std::uint32_t>(random >> 32);
    return T::is_signed ? static_cast<int>(bits % (2 * largest() + 1)) - largest()
                        : static_cast<int>(bits % (largest() + 1));
  }

  PERF_BOTH double factor(int rank, std::uint64_t random) const {
    const int at = slot(rank);
    const double sign = random & 1 ? -1 : 1;
    if (at == 0) return sign * (1 + 0.25 * static_cast<double>((random >> 8) % 4));
    if (at <= 5) return sign * (random & 2 ? 2 : 0.5);
    return sign;
  }

  PERF_BOTH double float_result() const {
    double result = recipe_.combine == Combine::Prod ? 1 : 0;
    for (int rank = 0; rank < recipe_.ranks; ++rank) {
      const double value = T::decode(input(rank));
      switch (recipe_.combine) {
        case Combine::Prod: result *= value; break;
        case Combine::Min: result = rank == 0 || value < result ? value : result; break;
        case Combine::Max: result = rank == 0 || value > result ? value : result; break;
        case Combine::MulSum: result += scalar(rank) * value; break;
        default: result += value;
      }
    }
    return recipe_.combine == Combine::Avg ? result / recipe_.ranks : result;
  }

  PERF_BOTH Bits integer_result() const {
    std::uint64_t wrapped = recipe_.combine == Combine::Prod ? 1 : 0;
    Bits extreme = input(0);
    for (int rank = 0; rank < recipe_.ranks; ++rank) {
      const Bits mine = input(rank);
      const auto value = static_cast<std::uint64_t>(mine);
      switch (recipe_.combine) {
        case Combine::Prod: wrapped *= value; break;
        case Combine::Min: extreme = mine < extreme ? mine : extreme; break;
        case Combine::Max: extreme = mine > extreme ? mine : extreme; break;
        case Combine::MulSum: wrapped += static_cast<std::uint64_t>(scalar(rank)) * value; break;
        default: wrapped += value;
      }
    }
    if (recipe_.combine == Combine::Min || recipe_.combine == Combine::Max) return extreme;
    // The sum of small values is small: its sign survived the wrapping.
    if (recipe_.combine == Combine::Avg)
      return static_cast<Bits>(static_cast<std::int64_t>(wrapped) / recipe_.ranks);
    return static_cast<Bits>(wrapped);
  }

  // What rounding may do to an average: 1/n and each product with it are rounded, and so is each of the k sums; a
  // product below the type's normal numbers loses half a step of theirs.
  PERF_BOTH double tolerance() const {
    double magnitude = 0;
    int terms = 0;
    for (int rank = 0; rank < recipe_.ranks; ++rank) {
      const double value = T::decode(input(rank));
      if (value == 0) continue;
      magnitude += value < 0 ? -value : value;
      ++terms;
    }
    const double half_step = 1.0 / static_cast<double>(std::uint64_t{1} << T::precision);
    const double tiny = Float32::power_of_two(T::bias < 100 ? 2 - T::bias - T::precision : -126);
    return (terms + 2) * half_step * magnitude / recipe_.ranks + terms * tiny;
  }

  const Recipe recipe_;
  const std::uint64_t hash_;
  int shift_;
};

}  // namespace perf
