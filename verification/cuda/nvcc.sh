# To be sourced: `fetch` brings nvcc from PyPI into the user's cache, and `$cuda` is where it is then.

# Packages of one CUDA release; they find each other in one folder.
version=13.0.88
packages=(nvidia-cuda-nvcc==$version nvidia-cuda-runtime==$version nvidia-cuda-crt==$version nvidia-nvvm==$version
  nvidia-cuda-cccl==13.0.85)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fakegpu/nvcc-$version
cuda=$cache/nvidia/cu13

fetch() {
  if [ ! -x "$cuda/bin/nvcc" ]; then
    echo "fetching nvcc $version from PyPI into $cache" >&2
    local fresh=$cache.$$
    python3 -m pip install --quiet --no-deps --root-user-action=ignore --target "$fresh" "${packages[@]}" || return 1
    # Another build may have been faster.
    mv -T "$fresh" "$cache" 2>/dev/null || rm -r "$fresh"
  fi
  # The wheel lacks the name that linkers look for.
  ln -sfn libcudart.so.13 "$cuda/lib/libcudart.so"
}
