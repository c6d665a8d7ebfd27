# SPDX-License-Identifier: BSD-3-Clause
# Random programs against a sequential model: "make check" runs a few seconds' worth of them, "make check-long"
# LONG_OPERATIONS in one process.
random_sources = tests/random/source.h tests/random/world.h tests/random/world.c tests/random/adapter.c \
	tests/random/heap.h tests/random/heap.c tests/random/contexts.c tests/random/kept.c tests/random/subscribers.c \
	tests/pointer_attributes.h tests/random/steps.h tests/random/steps.c tests/random/steps_requests.c \
	tests/random/model.h tests/random/model.c tests/random/calls.h tests/random/calls.c tests/random/lookups.c \
	tests/random/events.c tests/random/frees.c tests/random/reuse.c tests/random/program.h tests/random/program.c
random_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
EXTRA_DIST += tests/random/valgrind.supp

check_PROGRAMS += tests/random/check_random
TESTS += tests/random/check_random
tests_random_check_random_SOURCES = tests/random/check_random.c tests/random/delays.c $(random_sources)
tests_random_check_random_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock
tests_random_check_random_CPPFLAGS = $(random_cppflags)
tests_random_check_random_LDADD = src/libcore.la -lpthread

# The tests for "make check" with sanitizers; check-threads: those with threads. The longest come first.
check-units: SHORT = tests/random/check_random $(UNIT_CHECKS) $(PLANE_CHECKS)
check-threads: SHORT = tests/random/check_random tests/unit/check_hit_races tests/unit/check_table tests/unit/check_log \
	tests/unit/check_hits tests/unit/check_states tests/unit/check_registration tests/unit/check_statistics $(PLANE_CHECKS)
# The tools have one thread.
check-threads-long: SHORT = tests/random/check_random tests/random/check_fuzz $(UNIT_CHECKS) $(PLANE_CHECKS)
check-threads-long: SCRIPT = tests/contract/check_driver
check-units check-threads check-threads-long:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(SHORT) $(SCRIPT:=.sh)' check_PROGRAMS='$(SHORT) $(SCRIPT)'
.PHONY: check-units check-threads check-threads-long

# Eight threads, kept memory, and evictions at a limit of regions; without the worker, which takes most of the time.
LONG_OPERATIONS = 10000000
LONG_SETTINGS = PEERPIN_PREREGISTER=off,PEERPIN_KEEP=8M,CHECK_RANDOM_REGIONS=88,CHECK_RANDOM_ADAPTERS=1
check-long: tests/random/check_random
	tests/random/check_random --operations $(LONG_OPERATIONS) --threads 8 --settings $(LONG_SETTINGS)
.PHONY: check-long

# Operations from bytes: where clang has libFuzzer, "make fuzz" searches for failing bytes, starting
# with those that the plain program generates.
check_PROGRAMS += tests/random/check_fuzz
TESTS += tests/random/check_fuzz
tests_random_check_fuzz_SOURCES = tests/random/fuzz.c $(random_sources)
tests_random_check_fuzz_CPPFLAGS = $(random_cppflags) -DPLAIN_MAIN
tests_random_check_fuzz_LDADD = src/libcore.la -lpthread

FUZZ_SECONDS = 60
if HAVE_FUZZER
# Without the files whose functions random/world.c defines: nothing is linked from an archive.
fuzz_library = $(src_libcore_la_SOURCES:src/memory/driver.c=)
fuzz_sources = $(fuzz_library:src/registration/verbs_calls.c=) tests/random/fuzz.c $(random_sources)
tests/random/fuzz: $(fuzz_sources)
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(FUZZ_CC) $(DEFS) $(DEFAULT_INCLUDES) $(random_cppflags) $(AM_CFLAGS) -O1 -g \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $@ \
		`for file in $(fuzz_sources); do case $$file in *.c) echo $(top_srcdir)/$$file;; esac; done` -lpthread

fuzz: tests/random/fuzz tests/random/check_fuzz
	$(MKDIR_P) fuzz-corpus
	tests/random/check_fuzz --write fuzz-corpus
	tests/random/fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=2048 -timeout=60 -print_final_stats=1 fuzz-corpus
else
fuzz: tests/random/check_fuzz
	@echo 'no clang with libFuzzer: what is generated is run, and nothing is looked for' >&2
	tests/random/check_fuzz
endif
.PHONY: fuzz
CLEANFILES += tests/random/fuzz
clean-local: clean-fuzz
clean-fuzz:
	rm -rf fuzz-corpus
.PHONY: clean-fuzz
