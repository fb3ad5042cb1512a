{
  description = "FakeGPU: multi-GPU programs without the GPUs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  # The machine a developer needs, and nothing about tests: those that need no input stand in matrix/flake.nix.
  outputs = { self, nixpkgs }:
    let
      toolchain = (builtins.fromTOML (builtins.readFile ./rust-toolchain.toml)).toolchain;
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = f: builtins.listToAttrs (map (system: { name = system; value = f nixpkgs.legacyPackages.${system}; }) systems);
    in
    {
      devShells = each (pkgs: {
        default = pkgs.mkShell {
          name = "fakegpu-rust-${toolchain.channel}";
          # rustup reads rust-toolchain.toml, so that Nix and everybody else build with the same compiler.
          packages = [ pkgs.rustup pkgs.gcc pkgs.cmake pkgs.python3 pkgs.cargo-nextest pkgs.cargo-deny ];
          RUSTUP_TOOLCHAIN = toolchain.channel;
        };
      });
    };
}
