#!/usr/bin/env bash
# Puts a release into FOLDER: the wheels, a tarball of the programs without PyTorch, the list of what they are made of (CycloneDX), this
# version's section of the changelog, and the SHA-256 of each: scripts/release.sh FOLDER. `make release` builds the program before.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
if [ -z "${ANY:-}" ] && [ "$(git describe --tags --exact-match 2>/dev/null)" != "v$version" ]; then
  echo "flow: this commit isn't tagged v$version: tag it, or ANY=1 makes files of any commit" >&2
  exit 1
fi
name=flow-$version-x86_64-linux stage=target/wheel
fetched() { sed -n 's/^version=\([0-9.]*[0-9]\).*/\1/p' "scripts/get-$1.sh"; }
rm -rf "$out" && mkdir -p "$out"
if rustup target list --installed | grep -q aarch64-unknown-linux-gnu; then scripts/wheel.sh "$out" aarch64; else echo "flow: no wheel for Arm: rustup target add aarch64-unknown-linux-gnu"; fi
scripts/wheel.sh "$out"
# The same files as in the wheels: `LD_LIBRARY_PATH=SITE-PACKAGES/torch/lib:flow-.../torch/2.11 flow-.../torch/flow`.
tree=target/release-tree/$name
rm -rf target/release-tree && mkdir -p "$tree"
cp -r $stage/flow_rl/src/flow_rl/{bin,lib,share} $stage/flow_rl_torch/src/flow_rl/torch "$tree"
mkdir "$tree/python"
for package in $stage/flow_rl/src/*; do [ "${package##*/}" = flow_rl ] || cp -r "$package" "$tree/python"; done
cp LICENSE README.md CHANGELOG.md "$tree"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C target/release-tree -cz -f "$out/$name.tar.gz" "$name"
cargo metadata --locked --format-version 1 | python3 scripts/sbom.py "libduckdb@$(fetched duckdb)" "libtorch@$(fetched libtorch)" > "$out/flow-$version.cdx.json"
# A version that isn't named yet has what is called unreleased.
awk -v version="$version" '/^## /{ on = $2 == version || $2 == "["version"]"; if ($2 == "Unreleased" && !found) { on = 1 } if (on) found = 1 } on' CHANGELOG.md > "$out/changes-$version.md"
(cd "$out" && sha256sum -- * > SHA256SUMS && cat SHA256SUMS)
