#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_model -- the assertions of the models of the table's look-up and of hits hold in every
# state, and with --long each mutant breaks one
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: check_model.sh [--long]

Explores lookup.pml and hits.pml with spin, and small programs with orders.py. --long: larger configurations and the
mutants, which show that the models' assertions can fail, too; some minutes and up to 4 GB of memory, without 2 GB. Ends with "N passed, N failed, N skipped"; 77 when spin is not installed.
TEXT
}

passed=0 failed=0 skipped=0
srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}/tests/model" && pwd)
compiler=${CC:-gcc}
long=
case ${1:-} in
--long) long=yes ;;
--help) usage; exit 0 ;;
'') ;;
*) usage >&2; exit 2 ;;
esac
if ! command -v spin >/dev/null; then
	echo 'SKIPPED: spin is not installed'
	echo '0 passed, 0 failed, 1 skipped'
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

model=lookup.pml
optimise=-O2 # compiling takes longer than running where a counter-example is found
# Without --long states are kept uncompressed, at twice the memory and three quarters of the time.
# explore SWITCH...: into the file "out". A run that meets its limit of depth or memory is incomplete.
explore() {
	spin -a "$@" "$srcdir/$model" >out 2>&1 || return
	# shellcheck disable=SC2086 # CC may have options
	$compiler "$optimise" -w -DSAFETY -DNOFAIR ${long:+-DCOLLAPSE} -DMEMLIM=3900 -o pan pan.c >out 2>&1 || return
	./pan -m4000000 -w24 -n >out 2>&1 || return
}

states() {
	awk '/states, stored/ { print $1 }' out
}

# holds NAME SWITCH...
holds() {
	local what=$1

	shift
	SECONDS=0
	if explore "$@" && grep -q 'errors: 0$' out &&
		! grep -qE 'max search depth too small|Search not completed|out of memory' out; then
		echo "holds: $what: $(states) states, $SECONDS s"
		passed=$((passed + 1))
	else
		echo "FAILED: $what ($*)"
		tail -n 20 out
		failed=$((failed + 1))
	fi
}

# breaks NAME SWITCH...: one of the model's assertions, nothing else
breaks() {
	local what=$1

	[[ $long ]] || return 0
	shift
	SECONDS=0
	explore "$@" || :
	if grep -q '^pan:1: assertion violated' out; then
		echo "breaks: $what: after $(states) states, $SECONDS s"
		passed=$((passed + 1))
	else
		echo "FAILED: nothing noticed: $what ($*)"
		tail -n 20 out
		failed=$((failed + 1))
	fi
}

holds 'beside a lasting allocation' -DRANGES=1 -DADDRESS=2
holds 'in the lower half' -DRANGES=2 -DADDRESS=3
holds 'at a start, two writers' -DRANGES=2 -DADDRESS=1 -DWRITERS=2
if [[ $long ]]; then
	holds 'over the middle' -DRANGES=2 -DADDRESS=4
	holds 'one over all starts' -DRANGES=3 -DADDRESS=2
	holds 'where nodes change their level' -DRANGES=1 -DADDRESS=6
	holds 'any free record may be taken' -DRANGES=2 -DADDRESS=1 -DANY_RECORD
fi

optimise=-O0
lower=(-DRANGES=2 -DADDRESS=3)
breaks 'second generation check left out' "${lower[@]}" -DMUTANT=1
breaks 'slots node recycled while a live allocation is in it' "${lower[@]}" -DMUTANT=2
breaks 'no try of before after a candidate that failed' -DRANGES=1 -DADDRESS=2 -DMUTANT=3
breaks 'slot moved while its allocation is live' "${lower[@]}" -DMUTANT=4
breaks 'old slots node cleared at the split' "${lower[@]}" -DMUTANT=5
breaks 'generation reused' "${lower[@]}" -DMUTANT=6
breaks 'record given back before it is unlinked' "${lower[@]}" -DMUTANT=7 -DWRITERS=2
breaks 'generation odd before the fields are there' "${lower[@]}" -DMUTANT=8
breaks 'old slots node recycled at the split' "${lower[@]}" -DMUTANT=9
breaks 'not the highest start at or below the address' "${lower[@]}" -DMUTANT=10
breaks 'the walk down not bounded by the address bits' -DRANGES=2 -DADDRESS=1 -DMUTANT=11
breaks 'a split node counts as empty while an allocation reaches into it' -DRANGES=1 -DADDRESS=2 -DMUTANT=12

model=hits.pml
optimise=-O2
breaks 'no second look at the allocation' -DMUTANT=1
breaks 'the keys are read before the hold' -DMUTANT=2
breaks 'a free deregisters before it revokes' -DMUTANT=3
breaks 'a client MR at a reused address does not drop the older one' -DMUTANT=4
breaks 'an eviction does not check the count' -DMUTANT=5
breaks 'the generation ends after the next keys are stored' -DMUTANT=6
breaks 'a hit does not take the hold' -DMUTANT=7
breaks 'a region is deregistered before its generations end' -DMUTANT=8
breaks 'the keys of two regions of an allocation have one place' -DMUTANT=9 -DPARTS=1
breaks 'the generation of one stripe does not end' -DMUTANT=10
breaks 'a region is reused with revoked client MRs' -DMUTANT=11 -DPARTS=1 -DFREES=2 -DEVICTIONS=0
holds 'hits beside an eviction and a free'
if [[ $long ]]; then
	holds 'hits in a part and in the whole' -DPARTS=1
	holds 'hits beside two frees' -DFREES=2 -DEVICTIONS=0
	holds 'hits beside two evictions' -DEVICTIONS=2 -DFREES=0 -DREGISTRATIONS=3
fi

if command -v python3 >/dev/null; then
	"$srcdir/orders.py" >orders || :
	grep -v '^[0-9]* passed' orders || :
	if read -r good _ bad _ < <(tail -n 1 orders) && [[ $good =~ ^[0-9]+$ && $bad =~ ^[0-9]+$ ]]; then
		passed=$((passed + good)) failed=$((failed + bad))
	else
		failed=$((failed + 1))
	fi
else
	echo 'SKIPPED: python3 is not installed'
	skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
