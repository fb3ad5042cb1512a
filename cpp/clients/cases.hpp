// The calls to make and how each is checked: which buffers it gets and what must stand in them afterwards.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "reference.hpp"
#include "rendezvous.hpp"

enum class Collective { AllReduce, Reduce, Broadcast, AllGather, ReduceScatter, AllToAll, Gather, Scatter };
inline constexpr Collective COLLECTIVES[] = {
    Collective::AllReduce,     Collective::Reduce,   Collective::Broadcast, Collective::AllGather,
    Collective::ReduceScatter, Collective::AllToAll, Collective::Gather,    Collective::Scatter};

inline const char *name(Collective collective) {
  constexpr const char *names[] = {"allreduce",     "reduce",   "broadcast", "allgather",
                                   "reducescatter", "alltoall", "gather",    "scatter"};
  return names[static_cast<int>(collective)];
}

inline Collective collective_named(const std::string &text) {
  for (Collective collective : COLLECTIVES)
    if (text == name(collective)) return collective;
  demo::fail("`" + text + "` is no collective");
}

inline bool reduces(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::Reduce ||
         collective == Collective::ReduceScatter;
}

inline bool has_root(Collective collective) {
  return collective == Collective::Reduce || collective == Collective::Broadcast ||
         collective == Collective::Gather || collective == Collective::Scatter;
}

// Blocks of `count` elements in the send buffer and in the receive buffer, where a rank uses them at all.
inline std::size_t send_blocks(Collective collective, int ranks) {
  const bool all = collective == Collective::ReduceScatter || collective == Collective::AllToAll ||
                   collective == Collective::Scatter;
  return all ? static_cast<std::size_t>(ranks) : 1;
}

inline std::size_t recv_blocks(Collective collective, int ranks) {
  const bool all = collective == Collective::AllGather || collective == Collective::AllToAll ||
                   collective == Collective::Gather;
  return all ? static_cast<std::size_t>(ranks) : 1;
}

// An element type: its code, and what the reference makes of it behind a face without templates.
struct DType {
  const char *name;
  ncclDataType_t code;
  std::size_t size;
  bool is_float;
  // Elements 0..count of every rank, and their reduction, as bytes.
  std::vector<std::vector<unsigned char>> (*inputs)(int ranks, std::size_t count, reference::Inputs);
  std::vector<unsigned char> (*reduced)(reference::Op, const std::vector<std::vector<unsigned char>> &);
  std::vector<unsigned char> (*scalar)(int rank);
  bool (*is_nan)(const unsigned char *);
  std::string (*text)(const unsigned char *);
};

template <class T>
struct Face {
  using Bits = typename T::Bits;
  using Bytes = std::vector<unsigned char>;

  static Bytes bytes(const std::vector<Bits> &elements) {
    Bytes bytes(elements.size() * sizeof(Bits));
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
  }
  static Bits element(const unsigned char *at) {
    Bits bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
  }
  static std::vector<Bytes> inputs(int ranks, std::size_t count, reference::Inputs inputs) {
    std::vector<Bytes> all;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<Bits> elements(count);
      for (std::size_t i = 0; i < count; ++i) elements[i] = reference::input<T>(rank, i, inputs);
      all.push_back(bytes(elements));
    }
    return all;
  }
  static Bytes reduced(reference::Op op, const std::vector<Bytes> &contributions) {
    std::vector<std::vector<Bits>> elements;
    for (const Bytes &mine : contributions) {
      elements.emplace_back(mine.size() / sizeof(Bits));
      std::memcpy(elements.back().data(), mine.data(), mine.size());
    }
    return bytes(reference::reduce<T>(op, elements));
  }
  static Bytes scalar(int rank) { return bytes({reference::scalar<T>(rank)}); }
  static bool is_nan(const unsigned char *at) { return T::is_nan(element(at)); }
  static std::string text(const unsigned char *at) { return T::text(element(at)); }

  static constexpr DType dtype(const char *name, ncclDataType_t code) {
    return {name, code, sizeof(Bits), T::is_float, inputs, reduced, scalar, is_nan, text};
  }
};

inline const DType DTYPES[] = {
    Face<reference::Integer<std::int8_t>>::dtype("int8", ncclInt8),
    Face<reference::Integer<std::uint8_t>>::dtype("uint8", ncclUint8),
    Face<reference::Integer<std::int32_t>>::dtype("int32", ncclInt32),
    Face<reference::Integer<std::uint32_t>>::dtype("uint32", ncclUint32),
    Face<reference::Integer<std::int64_t>>::dtype("int64", ncclInt64),
    Face<reference::Integer<std::uint64_t>>::dtype("uint64", ncclUint64),
    Face<reference::Float16>::dtype("float16", ncclFloat16),
    Face<reference::Float32>::dtype("float32", ncclFloat32),
    Face<reference::Float64>::dtype("float64", ncclFloat64),
    Face<reference::BFloat16>::dtype("bfloat16", ncclBfloat16),
    Face<reference::Float8E4M3>::dtype("float8e4m3", ncclFloat8e4m3),
    Face<reference::Float8E5M2>::dtype("float8e5m2", ncclFloat8e5m2),
};

inline const DType &dtype_named(const std::string &text) {
  for (const DType &dtype : DTYPES)
    if (text == dtype.name) return dtype;
  demo::fail("`" + text + "` is no element type");
}

struct Case {
  Collective collective;
  const DType *dtype;
  reference::Op op;
  std::size_t count;
  int root;
  bool in_place;

  std::string text() const {
    std::string text = std::string(name(collective)) + " of " + std::to_string(count) + " " + dtype->name;
    if (reduces(collective)) text += std::string(", ") + reference::name(op);
    if (has_root(collective)) text += ", root " + std::to_string(root);
    return text + (in_place ? ", in place" : "");
  }
};

// Elements per block so that the larger buffer has about `bytes`; odd, so that no block is a round number.
inline std::size_t count_for(std::size_t bytes, Collective collective, const DType &dtype, int ranks) {
  const std::size_t blocks = std::max(send_blocks(collective, ranks), recv_blocks(collective, ranks));
  return (bytes / dtype.size / blocks) | 1;
}

// Every operator, size, root and placement that makes sense for the collective.
inline std::vector<Case> cases(Collective collective, const DType &dtype, int ranks,
                               const std::vector<std::size_t> &sizes) {
  std::vector<reference::Op> ops(std::begin(reference::OPS), std::end(reference::OPS));
  if (!reduces(collective)) ops.resize(1);
  std::vector<int> roots = {0};
  if (has_root(collective) && ranks > 1) roots.push_back(ranks - 1);
  std::vector<Case> all;
  for (std::size_t bytes : sizes)
    for (reference::Op op : ops)
      for (int root : roots)
        for (bool in_place : {false, true}) {
          // All-to-all has no in-place form: every block is read after its place has been written.
          if (in_place && collective == Collective::AllToAll) continue;
          all.push_back({collective, &dtype, op, count_for(bytes, collective, dtype, ranks), root, in_place});
        }
  return all;
}

// Bytes of result over all ranks.
inline std::uint64_t result_bytes(const Case &one, int ranks) {
  const bool only_root = one.collective == Collective::Reduce || one.collective == Collective::Gather;
  return static_cast<std::uint64_t>(one.count) * one.dtype->size * recv_blocks(one.collective, ranks) *
         (only_root ? 1 : static_cast<std::uint64_t>(ranks));
}

inline ncclResult_t call(const Case &one, const void *send, void *recv, ncclRedOp_t op, ncclComm_t comm) {
  const ncclDataType_t type = one.dtype->code;
  switch (one.collective) {
    case Collective::AllReduce: return ncclAllReduce(send, recv, one.count, type, op, comm, nullptr);
    case Collective::Reduce: return ncclReduce(send, recv, one.count, type, op, one.root, comm, nullptr);
    case Collective::Broadcast: return ncclBroadcast(send, recv, one.count, type, one.root, comm, nullptr);
    case Collective::AllGather: return ncclAllGather(send, recv, one.count, type, comm, nullptr);
    case Collective::ReduceScatter: return ncclReduceScatter(send, recv, one.count, type, op, comm, nullptr);
    case Collective::AllToAll: return ncclAlltoAll(send, recv, one.count, type, comm, nullptr);
    case Collective::Gather: return ncclGather(send, recv, one.count, type, one.root, comm, nullptr);
    case Collective::Scatter: return ncclScatter(send, recv, one.count, type, one.root, comm, nullptr);
  }
  return ncclInvalidArgument;
}

// Runs cases of one element type on one rank.
class Checker {
 public:
  Checker(const demo::Place &place, ncclComm_t comm, const DType &dtype, const std::vector<std::size_t> &sizes)
      : place_(place), comm_(comm), dtype_(dtype) {
    std::size_t count = 0;
    for (std::size_t bytes : sizes)
      for (Collective collective : COLLECTIVES)
        count = std::max(count, count_for(bytes, collective, dtype, place.ranks) *
                                    std::max(send_blocks(collective, place.ranks), std::size_t{1}));
    numbers_ = dtype.inputs(place.ranks, count, reference::Inputs::Numbers);
    if (dtype.is_float) with_nans_ = dtype.inputs(place.ranks, count, reference::Inputs::NumbersAndNaN);
  }

  // Makes the call and compares; a wrong element ends the process with a sentence.
  void run(const Case &one) const {
    const std::size_t block = one.count * dtype_.size;
    const auto rank = static_cast<std::size_t>(place_.rank);
    const bool is_root = place_.rank == one.root;
    const bool sends = is_root || (one.collective != Collective::Broadcast && one.collective != Collective::Scatter);
    const bool receives = is_root || (one.collective != Collective::Reduce && one.collective != Collective::Gather);
    const std::size_t send_bytes = block * send_blocks(one.collective, place_.ranks);
    const std::size_t recv_bytes = block * recv_blocks(one.collective, place_.ranks);

    // In place, the smaller buffer is a part of the larger: the rank's own block where there are several.
    std::vector<unsigned char> first(std::max(send_bytes, recv_bytes), GARBAGE), second(recv_bytes, GARBAGE);
    unsigned char *send = first.data(), *recv = one.in_place ? first.data() : second.data();
    if (one.in_place && recv_bytes > send_bytes) send += rank * block;
    if (one.in_place && send_bytes > recv_bytes) recv += rank * block;
    if (sends) std::memcpy(send, contributions(one)[rank].data(), send_bytes);

    // A buffer a rank has no use for may be NULL.
    const Operator op(*this, one.op);
    const ncclResult_t result = call(one, sends || one.in_place ? send : nullptr,
                                     receives || one.in_place ? recv : nullptr, op.code(), comm_);
    demo::check(result, place_.name() + ": " + one.text());
    if (receives) compare(one, recv, expected(one));
  }

 private:
  static constexpr unsigned char GARBAGE = 0xa5;
  using Bytes = std::vector<unsigned char>;

  // NCCL's operator for one of ours; premulsum's is made for the call.
  class Operator {
   public:
    Operator(const Checker &checker, reference::Op op) : checker_(checker), made_(op == reference::Op::PreMulSum) {
      constexpr ncclRedOp_t builtin[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg, ncclSum};
      code_ = builtin[static_cast<int>(op)];
      if (!made_) return;
      Bytes scalar = checker.dtype_.scalar(checker.place_.rank);
      demo::check(ncclRedOpCreatePreMulSum(&code_, scalar.data(), checker.dtype_.code, ncclScalarHostImmediate,
                                           checker.comm_),
                  checker.place_.name() + ": ncclRedOpCreatePreMulSum");
    }
    ~Operator() {
      if (made_) demo::check(ncclRedOpDestroy(code_, checker_.comm_), checker_.place_.name() + ": ncclRedOpDestroy");
    }
    Operator(const Operator &) = delete;
    Operator &operator=(const Operator &) = delete;
    ncclRedOp_t code() const { return code_; }

   private:
    const Checker &checker_;
    bool made_;
    ncclRedOp_t code_;
  };

  // Only min and max have a rule for NaN that leaves no choice of bits.
  const std::vector<Bytes> &contributions(const Case &one) const {
    const bool ordered = one.op == reference::Op::Min || one.op == reference::Op::Max;
    return dtype_.is_float && reduces(one.collective) && ordered ? with_nans_ : numbers_;
  }

  // All contributions reduced: computed once per operator, whatever the size and collective.
  const Bytes &reduced(const Case &one) const {
    const auto found = reduced_.find(one.op);
    if (found != reduced_.end()) return found->second;
    return reduced_.emplace(one.op, dtype_.reduced(one.op, contributions(one))).first->second;
  }

  Bytes expected(const Case &one) const {
    const std::size_t block = one.count * dtype_.size;
    const auto rank = static_cast<std::size_t>(place_.rank), root = static_cast<std::size_t>(one.root);
    const auto block_of = [block](const Bytes &bytes, std::size_t index) {
      const auto start = bytes.begin() + static_cast<std::ptrdiff_t>(index * block);
      return Bytes(start, start + static_cast<std::ptrdiff_t>(block));
    };
    // One block of every rank, `index` says which.
    const auto from_all = [&](std::size_t index) {
      Bytes all;
      for (const Bytes &mine : numbers_) {
        const Bytes part = block_of(mine, index);
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    };
    switch (one.collective) {
      case Collective::AllReduce:
      case Collective::Reduce: return block_of(reduced(one), 0);
      case Collective::ReduceScatter: return block_of(reduced(one), rank);
      case Collective::Broadcast: return block_of(numbers_[root], 0);
      case Collective::Scatter: return block_of(numbers_[root], rank);
      case Collective::AllToAll: return from_all(rank);
      default: return from_all(0);
    }
  }

  void compare(const Case &one, const unsigned char *got, const Bytes &expected) const {
    if (std::memcmp(got, expected.data(), expected.size()) == 0) return;
    for (std::size_t at = 0; at < expected.size(); at += dtype_.size) {
      const unsigned char *want = expected.data() + at, *have = got + at;
      if (std::memcmp(have, want, dtype_.size) == 0) continue;
      // One NaN of a reduction is as good as another; bytes that were only moved stay as they were.
      if (reduces(one.collective) && dtype_.is_nan(want) && dtype_.is_nan(have)) continue;
      demo::fail(place_.name() + ": " + one.text() + ": element " + std::to_string(at / dtype_.size) + " is " +
                 describe(have) + ", expected " + describe(want));
    }
  }

  // The value and its bits, most significant byte first.
  std::string describe(const unsigned char *at) const {
    std::string bits = " (0x";
    for (std::size_t byte = dtype_.size; byte-- > 0;) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", at[byte]);
      bits += digits;
    }
    return dtype_.text(at) + bits + ")";
  }

  demo::Place place_;
  ncclComm_t comm_;
  const DType &dtype_;
  std::vector<Bytes> numbers_, with_nans_;
  mutable std::map<reference::Op, Bytes> reduced_;
};
