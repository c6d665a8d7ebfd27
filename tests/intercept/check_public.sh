#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_public.sh -- the public interface: the example, header and manual
set -euo pipefail

# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"

source=${srcdir:-.}
library=$PWD/src/.libs/libpeerpin.so
standins=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for name in ${!PEERPIN_@}; do unset "$name"; done
export PEERPIN_SUMMARY=0

# The example's work in each case: 100 buffers, used 10 times each. Without peerpin its registrations outlive their memory.
export PEERPIN_SIM_ADAPTER_OUTLIVE=1
example() {
	env "$@" LD_LIBRARY_PATH="$standins" tests/intercept/.libs/cache
}
same 'the example registers and compares tags without peerpin' \
	'900 found, 100 registered, 1099 tag checks' "$(example -u LD_PRELOAD)"
same 'the example without what peerpin does' '900 found, 100 registered, 1099 tag checks' \
	"$(example LD_PRELOAD="$library" PEERPIN_DISABLE=1)"
for mode in auto off; do
	same "the example compares nothing with PEERPIN_PREREGISTER=$mode" '900 found, 100 registered, 0 tag checks' \
		"$(example LD_PRELOAD="$library" PEERPIN_PREREGISTER=$mode)"
done

read -r -a compiler <<<"${CC:-cc}"
"${compiler[@]}" -std=gnu11 -I "$source/include" -I "$source/src" -I "$source/tests/apps/include" "$source/docs/examples/cache.c" -o "$tmp/cache" \
	"$library" "${standins%:*}/libibverbs.so.1" "${standins#*:}/libcuda.so.1"
same 'the example compares nothing linked with the library, which precedes the driver' '900 found, 100 registered, 0 tag checks' \
	"$(LD_LIBRARY_PATH=$standins:${library%/*} "$tmp/cache")"

# compiles NAME WORDS...: without compiler messages
compiles() {
	local name=$1
	shift
	same "$name" $'\n=> 0' "$(outcome "$@" -Wall -Wextra -pedantic -Werror -fsyntax-only -I "$source/include")"
}
compiles 'the header in C' "${compiler[@]}" -std=c99 -x c "$source/include/peerpin.h"
if command -v g++ >/dev/null; then
	cat >"$tmp/header.cc" <<'TEXT'
#include <peerpin.h>
int main()
{
	peerpin_subscriber subscriber = { sizeof(subscriber), 0, 0, 0 };
	int number;
	return peerpin_subscribe(&subscriber, &number);
}
TEXT
	compiles 'the header in C++' g++ -std=c++98 -Wno-long-long "$tmp/header.cc"
	g++ -I "$source/include" "$tmp/header.cc" -o "$tmp/header" "$library" 2>"$tmp/errors" || true
	same 'names are found from C++' '' "$(cat "$tmp/errors")"
else
	skip 'the header in C++: there is no g++'
fi
if [[ -e /usr/include/infiniband/verbs.h ]]; then
	same 'the example with the real header' $'\n=> 0' "$(outcome "${compiler[@]}" -std=gnu11 -Wall -Wextra -Werror \
		-fsyntax-only -I "$source/include" -idirafter "$source/tests/apps/include" "$source/docs/examples/cache.c")"
else
	skip 'the example with the real header: there is none'
fi

# The manual has every function, and formats without warnings.
manual=$source/docs/man/peerpin.3
functions=$(sed -n 's/^[a-z].*[ *]\(peerpin_[a-z]*\)(.*/\1/p' "$source/include/peerpin.h" | LC_ALL=C sort)
same 'the manual has what the header has' "$functions" \
	"$(sed -n 's/^\.BI .*[ *]\(peerpin_[a-z]*\)(.*/\1/p' "$manual" | LC_ALL=C sort -u)"
if command -v groff >/dev/null; then
	same 'the manual is set without a warning' '' "$(groff -man -ww -Tutf8 -z "$manual" 2>&1)"
elif command -v man >/dev/null; then
	same 'the manual is set without a warning' '' "$(man -l --warnings "$manual" 2>&1 >/dev/null)"
else
	skip 'the manual: there is no groff'
fi

# Link options as of an installed library.
if command -v pkg-config >/dev/null; then
	same 'pkg-config says how to link' \
		"-I/nowhere/include -L/nowhere/lib/peerpin -Wl,-rpath,/nowhere/lib/peerpin -lpeerpin" \
		"$(PKG_CONFIG_PATH=$PWD/src pkg-config --define-variable=prefix=/nowhere \
			--define-variable=exec_prefix=/nowhere --cflags --libs peerpin | sed 's/ *$//')"
else
	skip 'how to link: there is no pkg-config'
fi
finish
