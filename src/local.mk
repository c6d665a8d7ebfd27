# SPDX-License-Identifier: BSD-3-Clause
# The preload library. libcore is all of it but the layer that binds to other libraries' symbols, so that the
# unit tests can link it.
AM_CFLAGS += $(SANITIZER_CFLAGS)

noinst_LTLIBRARIES += src/libcore.la
src_libcore_la_SOURCES = \
	include/peerpin.h \
	src/base/atomics.h src/base/capped.h \
	src/base/config.def src/base/config.h src/base/config.c \
	src/base/config_reader.h src/base/config_reader.c \
	src/base/config_text.c \
	src/base/job_file.h src/base/job_file.c \
	src/base/identity.h src/base/identity.c \
	src/base/held_file.h src/base/kernel.h src/base/kernel.c src/base/loaded.h src/base/loaded.c src/base/once.h \
	src/base/log.h src/base/log.c src/base/own_file.h src/base/own_file.c \
	src/base/pci.h src/base/pool.h src/base/pool.c \
	src/base/plain_text.h src/base/plain_text.c src/base/proc_stat.h src/base/proc_stat.c \
	src/base/process.h src/base/process.c \
	src/base/runtime.h src/base/runtime.c \
	src/base/signal_safe_write.h src/base/signal_safe_write.c \
	src/base/start.h src/base/start.c src/base/system.h src/base/system.c src/base/text.h \
	src/report/errors.def src/report/errors.h src/report/errors.c \
	src/report/callers.h src/report/callers.c src/report/json.c src/report/methods.def src/report/output.h src/report/output.c \
	src/report/statistics.def src/report/statistics.h src/report/statistics.c \
	src/report/summary.c src/report/table.c src/report/usage.c \
	src/report/trace.h src/report/trace.c \
	src/memory/cuda_abi.h src/memory/driver.h src/memory/driver.c src/memory/memory.h \
	src/memory/access.c src/memory/attributes.c src/memory/allocations.c src/memory/captures.c \
	src/memory/exports.c \
	src/memory/index.c src/memory/keep.h src/memory/keep.c src/memory/keep_limits.c src/memory/keep_pools.c src/memory/keep_wait.c \
	src/memory/kept.h src/memory/lookup.h \
	src/memory/queries.h src/memory/queries.c \
	src/memory/table.h src/memory/table.c \
	src/observe/observe.h src/observe/observe.c src/observe/observe_file.c src/observe/observe_tables.h \
	src/registration/domain.h src/registration/adapter.h src/registration/entry.h src/registration/region.h src/registration/objects.h src/registration/policy.h src/registration/registration.h src/registration/topology.h \
	src/registration/verbs_abi.h \
	src/registration/adapter.c src/registration/background.h src/registration/background.c \
	src/registration/domain.c \
	src/registration/client_mr.h src/registration/client_mr.c src/registration/holds.h src/registration/entry.c \
	src/registration/pinning.h src/registration/pinning.c src/registration/methods.h src/registration/methods.c \
	src/registration/dma_buf.c src/registration/peer_memory.c src/registration/own_calls.c \
	src/registration/ready_exports.h src/registration/ready_exports.c \
	src/registration/sysfs.h src/registration/sysfs.c src/registration/topology.c \
	src/registration/region.c \
	src/registration/requests.c src/registration/lock.h src/registration/lock.c src/registration/room.h src/registration/room.c src/registration/protection_domain.c src/registration/verbs_calls.c

pkglib_LTLIBRARIES += src/libpeerpin.la
src_libpeerpin_la_SOURCES = src/base/bytes.c \
	src/intercept/entry_points.def src/intercept/entry_points.h src/intercept/entry_points.c \
	src/intercept/resolve.c \
	src/intercept/cuda_context.c src/intercept/cuda_mapping.c src/intercept/cuda_memory.c \
	src/intercept/cuda_host.c src/intercept/cuda_pool.c src/intercept/cuda_queries.c src/intercept/cuda_repeated.c \
	src/intercept/wrappers.h \
	src/intercept/bypass.h src/intercept/bypass.c \
	src/intercept/observed.c src/intercept/observed_verbs.h src/intercept/observed_verbs.c \
	src/intercept/verbs.h src/intercept/verbs.c src/intercept/verbs_forms.c src/intercept/verbs_forwarded.c \
	src/intercept/verbs_check.c src/intercept/verbs_client.c src/intercept/verbs_evict.c src/intercept/verbs_trust.c \
	src/intercept/public.h src/intercept/public.c \
	src/intercept/library.c
if CPU_X86_64
src_libpeerpin_la_SOURCES += src/intercept/entries_x86_64.S
endif
if CPU_AARCH64
src_libpeerpin_la_SOURCES += src/intercept/entries_aarch64.S
endif
EXTRA_DIST += src/README.md src/intercept/entries_x86_64.S src/intercept/entries_aarch64.S
AM_CCASFLAGS = -I$(top_srcdir)/src
src_libpeerpin_la_LIBADD = src/libcore.la
# No start files: they refer to four names that no library defines, and each process of a job would look them up.
# -z lazy: a process looks up no function that it never calls.
# -O1 gives the symbol table more hash buckets: look-ups of other objects' symbols pass it in each process.
src_libpeerpin_la_LDFLAGS = -module -avoid-version -shared -Wl,-O1 \
	-Wl,--version-script=src/intercept/exports.map \
	-Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,lazy -Wl,-z,noseparate-code -XCClinker -nostartfiles
if !SANITIZER
# A row without its wrapper fails here.
src_libpeerpin_la_LDFLAGS += -Wl,-z,defs
endif
EXTRA_src_libpeerpin_la_DEPENDENCIES = src/intercept/exports.map

# From the table: exported and intercepted functions cannot differ.
src/intercept/exports.map: $(top_srcdir)/src/intercept/exports.map.in \
		$(top_srcdir)/src/intercept/entry_points.def
	$(AM_V_GEN)$(MKDIR_P) src/intercept && \
	$(CC) -E -P -x c -I$(top_srcdir)/src $(top_srcdir)/src/intercept/exports.map.in >$@.tmp && \
	mv $@.tmp $@
EXTRA_DIST += src/intercept/exports.map.in
CLEANFILES += src/intercept/exports.map

include_HEADERS = include/peerpin.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = src/peerpin.pc

# One manual page for all functions, with a link for each name.
dist_man_MANS = docs/man/peerpin.3
man_links = peerpin_version peerpin_statistic peerpin_subscribe peerpin_unsubscribe
install-data-hook:
	for name in $(man_links); do \
		echo '.so man3/peerpin.3' >$(DESTDIR)$(man3dir)/$$name.3 || exit 1; \
	done
uninstall-hook:
	for name in $(man_links); do rm -f $(DESTDIR)$(man3dir)/$$name.3; done
EXTRA_DIST += docs/examples/cache.c
