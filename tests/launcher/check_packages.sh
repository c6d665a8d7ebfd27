#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_packages.sh -- scripts/install-packages with stand-ins for apt-get and dpkg-query: no
# package is installed
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/checks"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# PATH has only these programs, so that a test can omit apt-get.
mkdir "$tmp/bin"
for name in bash cat env grep mktemp rm sort; do
	ln -s "$(command -v "$name")" "$tmp/bin/$name"
done
printf '#!%s\nexec "$@"\n' "$BASH" >"$tmp/bin/sudo"
printf '#!%s\n[[ "$*" != *" $HAVE" ]] || echo installed\n' "$BASH" >"$tmp/bin/dpkg-query"
cat >"$tmp/apt-get" <<TEXT
#!$BASH
echo "\$*" >>$tmp/calls
case " \$* " in
*" \${LACK:-none} "*) echo "E: Unable to locate package \$LACK"; exit 100 ;;
*" --simulate "*) printf 'Inst %s (1)\n' \${BRINGS:-} ;;
esac
TEXT
chmod +x "$tmp/bin/sudo" "$tmp/bin/dpkg-query" "$tmp/apt-get"

install() { # install [NAME=VALUE...] GROUP
	rm -f "$tmp/calls"
	outcome env -i PATH="$tmp/bin" "${@:1:$#-1}" "$here/../../scripts/install-packages" "${@: -1}"
}

installed() {
	sed -n 's/.* install --yes --no-install-recommends //p' "$tmp/calls"
}

matches 'without apt the packages are named' '*no apt*: python3 spin*=> 1' "$(install model)"
cp "$tmp/apt-get" "$tmp/bin/apt-get"
same 'missing packages are installed' $'scripts/install-packages: installing: python3 spin\n=> 0' "$(install model)"
same 'one call installs all' 'python3 spin' "$(installed)"
matches 'an installed package is not listed' '*installing: python3*=> 0' "$(install HAVE=spin model)"
same 'an installed package is not installed again' python3 "$(installed)"
matches 'a package that the release lacks is named' '*not available in this release: spin*TEST_PACKAGES=installed*=> 1' \
	"$(install LACK=spin model)"
same 'the other packages are installed' python3 "$(installed)"
matches 'packages that would replace udev are refused' '*would bring in rdma-core*=> 1' "$(install BRINGS=rdma-core model)"
same 'a refused group installs nothing' '' "$(installed)"
same 'with TEST_PACKAGES=installed apt is not called' '=> 0 no' \
	"$(install TEST_PACKAGES=installed model | tail -n 1) $([[ -e $tmp/calls ]] && echo yes || echo no)"
matches 'a group that does not exist is named' '*no such group: tests*=> 2' "$(install tests)"
finish
