#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_replaced.sh -- beside a program or a preload that replaces a function of libc and finds the
# original by dlsym, each such function in turn; and libc's state of a thread is as without peerpin
set -u
program=tests/intercept/replaced_program
[ -x $program ] || exit 77
source=${srcdir:-.}
library=$PWD/src/.libs/libpeerpin.so
# shellcheck source=tests/launcher/checks
. "$source/tests/launcher/checks"
program=$(built $program)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
export PEERPIN_SUMMARY=table PEERPIN_STATS_FILE=$folder/stats.json XDG_RUNTIME_DIR=$folder

# results PRELOADS [ARGUMENT]: what the program prints; the library's table is on the error output
results() {
    local status=0
    rm -f "$folder/stats.json"
    LD_PRELOAD=$1 timeout -s KILL 60 "$program" "${@:2}" 2>"$folder/err" || status=$?
    echo "=> $status$(grep nested "$folder/err")"
}

plain=$(results '') after_failure=$(results '' failed)
matches 'the program does all its steps' $'*cuMemFree: 1,*\n=> 0' "$plain"
matches 'the program shows the text of a failed look-up' '*cuInit:*dlerror *no_such_name*' "$after_failure"
same 'errno and dlerror() after each step' "$plain" "$(results "$library")"
matches 'the library is used' '*"hits"*' "$(cat "$folder/stats.json")"
same 'errno and dlerror() after each step that follows a failed look-up' "$after_failure" "$(results "$library" failed)"

# Functions that the library references or looks up, and others that its start might call.
referenced=$(nm -D --undefined-only "$library" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | grep -v environ)
looked_up=$(sed -n 's/^FOUND([a-z_]*, \([a-z_]*\),.*/\1/p' "$source/src/base/system.c" | grep -v '^dlsym$')
matches 'the names are found in the source' '*pthread_create*' "$looked_up"
others='dl_iterate_phdr dladdr dlerror dlinfo malloc calloc realloc free memcpy memmove memset memcmp strlen strcmp strncmp
    strchr strrchr strstr getenv secure_getenv syscall open openat read write close fstat mmap munmap mprotect
    getpid sysconf sched_yield pthread_once pthread_self pthread_getspecific pthread_setspecific pthread_key_create
    pthread_atfork atexit strtoul snprintf'

# The dlsym path calls none of them.
path=$(nm -u src/base/.libs/loaded.o src/base/.libs/start.o src/base/.libs/kernel.o src/intercept/.libs/resolve.o \
    src/intercept/.libs/load_watch.o | awk '$1 == "U" { print $2 }')
matches 'the objects of the dlsym path are read' '*loaded_first*' "$path"
same 'libc functions that the dlsym path references' '' "$(grep -xF -f <(echo "$path") <<<"$referenced")"

compile() { # compile COMPILER LANGUAGE NAME
    "$1" -x "$2" -DNAME="$3" -w -O1 -fno-builtin -fPIC -shared "$source/tests/intercept/replaced/replacement.c" \
        -o "$folder/$2-$3.so" -ldl 2>/dev/null
}
tried=0
for name in $(tr ' ' '\n' <<<"$referenced $looked_up $others" | sort -u); do
    # In C++ another runtime calls libc within a first look-up: tried for what the library itself calls.
    [[ $'\n'$referenced$'\n'$looked_up$'\n' = *$'\n'$name$'\n'* ]] && languages='c c++' || languages=c
    for language in $languages; do
        [ $language = c ] && compiler=${CC:-cc} || compiler=${CXX:-g++}
        compile "${compiler##* }" $language "$name" || continue
        replaced=$folder/$language-$name.so
        [ "$(results "$replaced")" = "$plain" ] || continue # wrong without peerpin
        tried=$((tried + 1))
        same "$language, $name, in front" "$plain" "$(results "$replaced:$library")"
        same "$language, $name, behind" "$plain" "$(results "$library:$replaced")"
        [ $language = c++ ] || same "$name, disabled" "$plain" "$(PEERPIN_DISABLE=1 results "$replaced:$library")"
    done
done
[ $tried -gt 0 ] || skip 'no compiler builds a replacement'

# Runtimes that replace many of them, and look the originals up before main.
for build in "${CC:-cc}:thread" clang:thread clang:memory; do
    compiler=${build%:*}
    echo 'int main(void) { return 0; }' >"$folder/sanitized.c"
    "${compiler##* }" -fsanitize="${build##*:}" "$folder/sanitized.c" -o "$folder/sanitized" 2>/dev/null || continue
    "$folder/sanitized" 2>/dev/null || continue # wrong without peerpin
    ends "a program built with $build" 0 '' env LD_PRELOAD="$library" "$folder/sanitized"
done
finish
