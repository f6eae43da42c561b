#!/usr/bin/env bash
# Puts libduckdb.so 1.5.6 (70 MB) into .duckdb, out of the hash-pinned archive that DuckDB's node package carries.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.5.6-r.1 sha=1b9f82478539bb9a1d1df44bd103121a12ae52142c07158dc52b97d2ec1d69ff dir=.duckdb
[ "$(cat $dir/version 2>/dev/null || true)" = "$version" ] && exit 0
echo "flow: fetching libduckdb $version (22 MB, once)"
rm -rf $dir && mkdir -p $dir
(cd $dir && npm pack --silent "@duckdb/node-bindings-linux-x64@$version" >/dev/null)
archive=$dir/duckdb-node-bindings-linux-x64-$version.tgz
echo "$sha  $archive" | sha256sum --check --quiet
tar xzf $archive -C $dir --strip-components=1 package/libduckdb.so
rm -f $archive
echo $version > $dir/version
