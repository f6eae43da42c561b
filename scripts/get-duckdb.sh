#!/usr/bin/env bash
# Puts libduckdb.so 1.5.6 (60 MB) into .duckdb, or for `aarch64` as the first word into .duckdb-aarch64, out of the hash-pinned wheel of DuckDB's Python package: its module has DuckDB's whole C interface.
# Needs python3 with pip (any 3.x: the wheel's tag is named, nothing is imported).
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.5.6 arch=${1:-x86_64} dir=.duckdb
[ "$arch" = x86_64 ] || dir=.duckdb-$arch
made="$version $(cat scripts/duckdb.txt scripts/get-duckdb.sh | sha256sum)"
[ "$(cat $dir/version 2>/dev/null || true)" = "$made" ] && exit 0
echo "flow: fetching libduckdb $version (22 MB, once)"
rm -rf $dir && mkdir -p $dir
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
  --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$arch" --require-hashes -r scripts/duckdb.txt -d $dir/wheels
# The module's other half speaks to Python, which isn't there. Its names become weak, so the file is loaded without them; nothing calls them.
python3 - $dir $arch <<'PY'
import glob, struct, sys, zipfile
folder, arch = sys.argv[1:]
archive = zipfile.ZipFile(glob.glob(folder + "/wheels/*.whl")[0])
file = bytearray(archive.read(f"_duckdb.cpython-311-{arch}-linux-gnu.so"))
at, size, count = struct.unpack_from("<Q", file, 40)[0], *struct.unpack_from("<HH", file, 58)
# ELF64: kind, offset, bytes, the section of its names.
sections = [struct.unpack_from("<4xI16xQQI", file, at + size * i) for i in range(count)]
symbols = next(section for section in sections if section[0] == 11)
names = sections[symbols[3]][1]
for symbol in range(symbols[1], symbols[1] + symbols[2], 24):
    name, info, section = struct.unpack_from("<IBxH", file, symbol)
    if section == 0 and bytes(file[names + name : names + name + 3]).startswith((b"Py", b"_Py")):
        file[symbol + 4] = 2 << 4 | info & 15
open(folder + "/libduckdb.so", "wb").write(file)
PY
rm -rf $dir/wheels
echo "$made" > $dir/version
