#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_files.sh -- the preload of the simulated adapter shows the files of simulated adapters, and forwards all else
set -euo pipefail

# shellcheck source=tests/launcher/checks
. "$(dirname "$0")/../launcher/checks"

preload=$(readlink -f "$PWD/src/sim/adapter/.libs/libsim_files.so")
program=$(built "$PWD/tests/plane/files")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset LD_PRELOAD PEERPIN_SIM_ADAPTER_DEVICES PEERPIN_SIM_ADAPTER_PEER

# shown PATH: the answers with the preload, without the names of functions, each once
shown() {
	LD_PRELOAD=$preload "$program" "$1" | sed 's/^[^:]*: //' | sort -u | paste -s -d,
}

# forwarded NAME PATH: with the preload every function answers as without
forwarded() {
	same "$1" "$("$program" "$2")" "$(LD_PRELOAD=$preload "$program" "$2")"
}

device=/dev/infiniband/uverbs0
peer=/sys/kernel/mm/memory_peers/nv_mem/version
same 'a device file, readable and writable' 'EACCES,device 666 231:192,yes' "$(shown $device)"
same 'a device is not executable' 'access X: EACCES' "$(LD_PRELOAD=$preload "$program" $device | grep EACCES)"
same 'the file of peer memory' '444 0:0,EACCES,yes' "$(shown $peer)"
same 'it is not writable' $'access W: EACCES\naccess X: EACCES' "$(LD_PRELOAD=$preload "$program" $peer | grep EACCES)"
if [[ -e /dev/infiniband/uverbs1 ]]; then
	skip 'devices that are not simulated: this host has real ones'
else
	same 'one device alone' ENOENT "$(shown /dev/infiniband/uverbs1)"
	same 'as many as the setting' 'EACCES,device 666 231:193,yes' "$(PEERPIN_SIM_ADAPTER_DEVICES=2 shown /dev/infiniband/uverbs1)"
	same 'no more' ENOENT "$(PEERPIN_SIM_ADAPTER_DEVICES=2 shown /dev/infiniband/uverbs2)"
	same 'at most 8' ENOENT "$(PEERPIN_SIM_ADAPTER_DEVICES=99 shown /dev/infiniband/uverbs8)"
fi
if [[ -e $peer ]]; then
	skip 'no peer memory: this host has it'
else
	same 'no peer memory by setting' ENOENT "$(PEERPIN_SIM_ADAPTER_PEER=0 shown $peer)"
fi
: >"$tmp/file"
chmod 640 "$tmp/file"
ln -s "$tmp/nowhere" "$tmp/link"
forwarded 'a file' "$tmp/file"
forwarded 'a missing file' "$tmp/missing"
forwarded 'a broken link' "$tmp/link"
forwarded 'a device' /dev/null
forwarded 'a longer name' "${device}0"
forwarded 'a name with letters' /dev/infiniband/uverbsx
forwarded 'no number' /dev/infiniband/uverbs
forwarded 'a folder' /sys/kernel/mm
forwarded 'an empty path' ''
finish
