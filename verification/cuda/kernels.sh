#!/bin/bash
# Small CUDA programs (kernels.cu) on a machine without CUDA: built by nvcc from PyPI in three ways, run, and their words
# compared. Prints a line for each and a total; ends with 1 if any is not as it should be.
#
# $LAYOUT_DIR is the laid out product [target/fakegpu].
set -uo pipefail

home=$(cd "$(dirname "$0")/../.." && pwd)
layout=${LAYOUT_DIR:-$home/target/fakegpu}
folder=$home/target/kernels-cuda
mkdir -p "$folder"
# shellcheck source=nvcc.sh
. "$home/verification/cuda/nvcc.sh"

compile() {
  "$cuda/bin/nvcc" -std=c++17 -O2 "$@" -L "$cuda/lib" "$home/verification/cuda/kernels.cu"
}

fetch || exit 1
compile -cudart shared -gencode arch=compute_80,code=compute_80 -o "$folder/kernels" || exit 1
compile -cudart shared -gencode arch=compute_80,code=sm_80 -o "$folder/machine-code" || exit 1
compile -gencode arch=compute_80,code=compute_80 -o "$folder/static" || exit 1

right=0 wrong=0

# check CODE WORDS PROGRAM CASE: it ends with the code, and says the words.
check() {
  local said code
  said=$(LD_LIBRARY_PATH=$layout/lib timeout 60 "$folder/$3" "$4" 2>&1)
  code=$?
  if [ "$code" = "$1" ] && [[ $said == *"$2"* ]]; then
    right=$((right + 1))
    echo "as it should be: $3 $4"
  else
    wrong=$((wrong + 1))
    echo "WRONG: $3 $4 ended with $code, not $1, and said: $said"
  fi
}

for case in saxpy histogram symbols half bfloat16 functions; do
  check 0 "" kernels "$case"
done
check 2 "bytes behind the end of the allocation" kernels beyond
check 2 'it uses shared memory (`.shared` at line' kernels shared
check 2 "no PTX (only SASS for sm_80); build with -gencode arch=compute_80,code=compute_80" machine-code saxpy
check 2 'build it with `nvcc -cudart shared`' static saxpy
echo "kernels: $right as they should be, $wrong wrong"
[ "$wrong" = 0 ]
