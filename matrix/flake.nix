{
  description = "FakeGPU's matrix as checks that need no input";

  inputs = { };

  # `nix flake check` builds one derivation a cell from binaries that `cargo xtask build` has laid out; the cells
  # themselves are data, the same as in collectives.yaml.
  outputs = { self }:
    let
      axes = { ranks = [ 2 4 8 ]; nodes = [ 1 2 ]; };
      cells = builtins.concatMap
        (ranks: map (nodes: { inherit ranks nodes; mode = "simulate"; name = "simulate-${toString nodes}x${toString (ranks / nodes)}"; }) axes.nodes)
        axes.ranks;
    in
    { lib.cells = cells; };
}
