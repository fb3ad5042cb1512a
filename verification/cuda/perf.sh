#!/bin/bash
# The perf client's CUDA build, on a machine without CUDA: nvcc comes from PyPI once, the program is compiled to PTX.
#
#   perf.sh build [FOLDER]             compiles fakegpu-perf and its ten names into FOLDER [target/perf-cuda]
#   perf.sh ptx                        prints the kernels' PTX
#   perf.sh run PROGRAM [ARGUMENTS]    builds, then runs it on FakeGPU's libraries, 4 ranks in one thread unless told
#
# $LAYOUT_DIR is the laid out product [target/fakegpu]. nvcc is kept in ~/.cache/fakegpu (or $XDG_CACHE_HOME).
set -euo pipefail

home=$(cd "$(dirname "$0")/../.." && pwd)
layout=${LAYOUT_DIR:-$home/target/fakegpu}
sources=$home/cpp/perf

# shellcheck source=nvcc.sh
. "$home/verification/cuda/nvcc.sh"

# PTX only: FakeGPU executes it, and a GPU's driver compiles it.
nvcc() {
  "$cuda/bin/nvcc" -std=c++17 -O2 -cudart shared -gencode arch=compute_80,code=compute_80 \
    -Xcompiler -Wall,-Wextra -I "$layout/include" "$@"
}

build() {
  fetch
  local folder=$1 program
  mkdir -p "$folder"
  local shared=()
  for source in "$sources"/*.cpp; do
    [ "${source##*/}" = device_host.cpp ] || shared+=("$source")
  done
  nvcc "${shared[@]}" "$sources/device_cuda.cu" -o "$folder/fakegpu-perf" \
    -L "$cuda/lib" -L "$layout/lib" -lnccl -lpthread
  for program in all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv hypercube; do
    ln -sfn fakegpu-perf "$folder/${program}_perf"
  done
}

case ${1-} in
  build) build "${2:-$home/target/perf-cuda}" ;;
  ptx)
    fetch
    nvcc -ptx "$sources/device_cuda.cu" -o /dev/stdout
    ;;
  run)
    shift
    build "$home/target/perf-cuda"
    program=$1
    shift
    [ $# -gt 0 ] || set -- -g 4 -b 8 -e 1M -f 8
    LD_LIBRARY_PATH=$layout/lib exec "$home/target/perf-cuda/$program" "$@"
    ;;
  *)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 1
    ;;
esac
