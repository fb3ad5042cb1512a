#!/usr/bin/env python3
"""Compares cpp/include/nccl.h with NVIDIA's headers of the same version.

NVIDIA's come from the wheel `nvidia-nccl-cu12==2.32.3` (350 MB), installed, or unpacked into the folder named by
NCCL_WHEEL_DIR. Without them this prints SKIPPED and exits 0, or 1 with --require.

Two comparisons:
  values      a probe of every size, offset, enumerator and macro is compiled against each header; the outputs
              must be equal
  prototypes  in one C++ program NVIDIA's headers are included and our prototypes follow as assignments to
              pointers of our types, so every function of ours must have exactly NVIDIA's type

No CUDA is needed: what the headers want from it is two handle types, which a stub provides.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "cpp" / "include"

# Exported, but declared in no header for Linux; `ncclResetDebugInit` is hidden behind a macro of the build.
UNDECLARED = {
    "ncclGinOutboxCreateRequirement",
    "ncclGinInboxA2ACreateRequirement",
    "ncclResetDebugInit",
    "ncclResetDebugInitInternal",
}
OURS_ONLY_MACROS = {"FAKEGPU_HAS_CUDA_RUNTIME", "NCCL_H_"}

INITIALIZERS = {
    "NCCL_CONFIG_INITIALIZER": "ncclConfig_t",
    "NCCL_COLLCONFIG_INITIALIZER": "ncclCollConfig_t",
    "NCCL_SIM_INFO_INITIALIZER": "ncclSimInfo_t",
    "NCCL_ENCRYPTION_CONFIG_INITIALIZER": "ncclEncryptionConfig_t",
    "NCCL_COMM_PROPERTIES_INITIALIZER": "ncclCommProperties_t",
}

STUBS = {
    "cuda_runtime.h": "#pragma once\n#define CUDART_VERSION 12080\n"
    "typedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n",
    "cuda_fp16.h": "",
    "cuda_bf16.h": "",
    "cuda_fp8.h": "",
    "cuda.h": "#pragma once\ntypedef enum { CU_STUB } CUmemLocationType;\n",
}


def nvidia_headers():
    """The folder that holds NVIDIA's nccl.h, or None."""
    candidates = []
    if folder := os.environ.get("NCCL_WHEEL_DIR"):
        candidates.append(pathlib.Path(folder))
    if (spec := importlib.util.find_spec("nvidia")) and spec.submodule_search_locations:
        candidates += [pathlib.Path(place) for place in spec.submodule_search_locations]
    for folder in candidates:
        for header in sorted(folder.rglob("nccl.h")):
            return header.parent
    return None


def names():
    """Structs with their members, enumerators, macros and functions of our header, read from its text."""
    text = (OURS / "nccl.h").read_text()
    structs = {
        name: re.findall(r"^  (?:struct \{[^}]*\} |union \{[^}]*\} )?[^;]*?(\w+)(?:\[\w+\])?; /\*", body, re.M)
        for body, name in re.findall(r"typedef struct \w+ \{\n(.*?)\n\} (\w+);", text, re.S)
    }
    enums = re.findall(r"typedef enum \{\n(.*?)\n\} (\w+);", text, re.S)
    enumerators = [name for body, _ in enums for name in re.findall(r"^  (\w+) =", body, re.M)]
    macros = set(re.findall(r"^#define (\w+) [^{(\"]", text, re.M)) - OURS_ONLY_MACROS
    prototypes = dict(
        (name, (returns.strip(), parameters))
        for returns, name, parameters in re.findall(r"^([\w ]+?[ *]+)(p?nccl\w+)\(([^;]*?)\);", text, re.M | re.S)
    )
    return structs, [name for _, name in enums], sorted(enumerators), sorted(macros), prototypes


def values_probe(structs, enums, enumerators, macros):
    """A program that prints every number."""
    lines = []
    for name, members in structs.items():
        lines.append(f'size({name}, sizeof({name}));')
        lines += [f'number({name}.{m}, offsetof({name}, {m}));' for m in members]
    lines += [f"size({name}, sizeof({name}));" for name in enums]
    lines += [f"number({name}, (long long){name});" for name in enumerators]
    for name in macros:
        if name in ("NCCL_COMM_NULL", "NCCL_CONFIG_UNDEF_PTR"):
            lines.append(f"number({name}, {name} == nullptr);")
        else:
            lines.append(f"number({name}, (long long)({name}));")
    for name, struct in INITIALIZERS.items():
        lines.append(f"{{ static {struct} v = {name}; bytes({name}, &v, sizeof v); }}")
    lines += [f"number(NCCL_VERSION, NCCL_VERSION({version}));" for version in ("2, 8, 4", "2, 9, 0", "2, 32, 3")]
    return (
        "#include <cstddef>\n#include <cstdio>\n#include <nccl.h>\n"
        "#if __has_include(<nccl_device/host.h>)\n"
        "#include <nccl_device/core.h>\n#include <nccl_device/host.h>\n#endif\n"
        '#define size(name, value) std::printf("sizeof %s %zu\\n", #name, value)\n'
        '#define number(name, value) std::printf("%s %lld\\n", #name, (long long)(value))\n'
        "static void dump(const char *name, const void *at, size_t n) {\n"
        '  std::printf("%s", name);\n'
        '  for (size_t i = 0; i < n; ++i) std::printf(" %02x", ((const unsigned char *)at)[i]);\n'
        '  std::printf("\\n");\n}\n'
        "#define bytes(name, at, n) dump(#name, at, n)\n"
        "int main() {\n  " + "\n  ".join(lines) + "\n}\n"
    )


def prototypes_probe(prototypes):
    """Definitions that compile only if NVIDIA declares every function of ours with our type."""
    lines = []
    for name, (returns, parameters) in sorted(prototypes.items()):
        if name.removeprefix("p") in UNDECLARED:
            continue
        lines.append(f"{returns} (*check_{name})({' '.join(parameters.split())}) = &{name};")
    return lines


def compile_and_run(source, includes, folder, run=True):
    path = folder / "probe.cc"
    path.write_text(source)
    flags = [f"-I{include}" for include in includes]
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-w", *flags, str(path)]
    command += ["-o", str(folder / "probe")] if run else ["-fsyntax-only"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr
    if not run:
        return "", ""
    return subprocess.run([str(folder / "probe")], capture_output=True, text=True, check=True).stdout, ""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--require", action="store_true", help="fail where NVIDIA's header is not there")
    options = arguments.parse_args()
    theirs = nvidia_headers()
    if theirs is None:
        print("SKIPPED: NVIDIA's nccl.h is not here; `pip install nvidia-nccl-cu12==2.32.3` or set NCCL_WHEEL_DIR")
        return 1 if options.require else 0
    structs, enums, enumerators, macros, prototypes = names()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        stubs = folder / "stubs"
        stubs.mkdir()
        for name, text in STUBS.items():
            (stubs / name).write_text(text)
        probe = values_probe(structs, enums, enumerators, macros)
        problems = compare_values(probe, theirs, stubs, folder)
        checked, differences = compare_prototypes(prototypes, theirs, stubs, folder)
        problems += differences
    for problem in problems:
        print(problem)
    members = sum(len(members) for members in structs.values())
    print(
        f"{'DIFFERENT' if problems else 'EQUAL'}: {len(structs)} structs with {members} members, "
        f"{len(enumerators)} enumerators, {len(macros)} macros, {checked} of {len(prototypes)} prototypes "
        f"({theirs / 'nccl.h'})"
    )
    return 1 if problems else 0


def compare_values(probe, theirs, stubs, folder):
    """The lines in which the outputs differ."""
    outputs = []
    for include in (OURS, theirs):
        output, errors = compile_and_run(probe, [include, stubs], folder)
        if output is None:
            return [f"the value probe does not compile against {include}:\n{errors[:4000]}"]
        outputs.append(output.splitlines())
    return [f"ours: {ours}\ntheirs: {other}" for ours, other in zip(*outputs, strict=True) if ours != other]


def compare_prototypes(prototypes, theirs, stubs, folder):
    """How many functions were compared, and what differs."""
    includes = "#include <cstddef>\n#include <nccl.h>\n#include <nccl_device/core.h>\n#include <nccl_device/host.h>\n"
    # NVIDIA's headers declare no twins of the device functions, though the library exports them.
    device = (theirs / "nccl_device" / "host.h").read_text()
    checked = {
        name: prototype
        for name, prototype in prototypes.items()
        if not (name.startswith("pnccl") and re.search(rf"\b{name[1:]}\(", device))
    }
    lines = prototypes_probe(checked)
    output, errors = compile_and_run(includes + "\n".join(lines) + "\n", [theirs, stubs], folder, run=False)
    return len(lines), [] if output is not None else [f"prototypes differ:\n{errors[:6000]}"]


if __name__ == "__main__":
    sys.exit(main())
