# SPDX-License-Identifier: BSD-3-Clause
# Tests of interception: the built library, and programs that run under it on the simulated driver.
intercept_checks = \
	tests/intercept/check_calls.sh \
	tests/intercept/check_layers.sh \
	tests/intercept/check_table.sh \
	tests/intercept/check_coverage.sh \
	tests/intercept/check_entries.sh \
	tests/intercept/check_names.sh \
	tests/intercept/check_preloads.sh \
	tests/intercept/check_cuda_h.sh \
	tests/intercept/check_lookups.sh \
	tests/intercept/check_replaced.sh \
	tests/intercept/check_reload.sh \
	tests/intercept/check_first.sh \
	tests/intercept/check_providers.sh \
	tests/intercept/check_matrix.sh \
	tests/intercept/check_queries.sh \
	tests/intercept/check_public.sh \
	tests/intercept/check_traps.sh \
	tests/intercept/check_old_driver.sh
EXTRA_DIST += tests/intercept/check_aarch64 tests/intercept/traps/traps_list.sh docs/internals/coverage.md docs/internals/registration.md tests/intercept/check_cuda_h.py tests/intercept/check_entries.py tests/intercept/matrix/matrix.py tests/unit/preload.h tests/intercept/calls/rows $(intercept_checks) \
	tests/intercept/lookup_library.c tests/intercept/lookup_library.h \
	tests/intercept/replaced/replacement.c \
	tests/intercept/old/driver.c tests/intercept/old_driver.c

# A libibverbs of the oldest and of the newest known version, and one of an unknown version. Like the real one, each
# calls its own functions through the dynamic linker.
verbs_sources = tests/intercept/verbs/libibverbs.c
verbs_cflags = $(AM_CFLAGS) -fsemantic-interposition
verbs_ldflags = -shared -version-info 1:0:0 -rpath /nowhere -Wl,--version-script=tests/intercept/verbs/version_
verbs_libadd = tests/intercept/verbs/libadapter.la -lpthread -ldl
tests/intercept/verbs/version_%.map: src/sim/adapter.map
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed 's/PRIVATE_59/PRIVATE_$*/' $(top_srcdir)/src/sim/adapter.map >$@
CLEANFILES += tests/intercept/verbs/version_34.map tests/intercept/verbs/version_65.map tests/intercept/verbs/version_99.map
EXTRA_DIST += $(verbs_sources) tests/intercept/verbs/libmlx5.map

check_PROGRAMS += tests/intercept/coverage
tests_intercept_coverage_SOURCES = tests/intercept/coverage.c

.PHONY: coverage
coverage: tests/intercept/coverage
	tests/intercept/coverage >$(top_srcdir)/docs/internals/coverage.md

check_LTLIBRARIES += tests/intercept/liblookup.la
tests_intercept_liblookup_la_SOURCES = tests/intercept/lookup_library.c
# Linked to an address above those where it is loaded.
tests_intercept_liblookup_la_LDFLAGS = -shared -avoid-version -rpath /nowhere -Wl,-Ttext-segment=0x900000000000
tests_intercept_liblookup_la_LIBADD = -ldl

if !SANITIZER
TESTS += $(intercept_checks)

check_PROGRAMS += tests/intercept/lookups
tests_intercept_lookups_SOURCES = tests/intercept/lookups.c
tests_intercept_lookups_LDADD = tests/intercept/liblookup.la -ldl

matrix_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/intercept/matrix
check_LTLIBRARIES += tests/intercept/librows.la tests/intercept/libucm_bypass.la tests/intercept/libucm_linked.la \
	tests/intercept/matrix_plugin.la
tests_intercept_librows_la_SOURCES = tests/intercept/matrix/rows.c tests/intercept/matrix/rows.h \
	tests/intercept/matrix/rows_repeated.c tests/intercept/matrix/steps.h tests/intercept/matrix/table.c
tests_intercept_librows_la_CPPFLAGS = $(matrix_cppflags)
tests_intercept_librows_la_LDFLAGS = -shared -avoid-version -rpath /nowhere
tests_intercept_librows_la_LIBADD = -ldl
tests_intercept_libucm_bypass_la_SOURCES = tests/intercept/matrix/bypass.c
tests_intercept_libucm_bypass_la_LDFLAGS = -shared -avoid-version -rpath /nowhere
tests_intercept_libucm_bypass_la_LIBADD = -ldl
tests_intercept_libucm_linked_la_SOURCES = tests/intercept/matrix/bypass.c
tests_intercept_libucm_linked_la_CPPFLAGS = $(AM_CPPFLAGS) -DLINKED
tests_intercept_libucm_linked_la_LDFLAGS = -shared -avoid-version -rpath /nowhere
tests_intercept_libucm_linked_la_LIBADD = src/sim/libcuda.la -ldl
tests_intercept_matrix_plugin_la_SOURCES = tests/intercept/matrix/plugin.c
tests_intercept_matrix_plugin_la_CPPFLAGS = $(matrix_cppflags)
tests_intercept_matrix_plugin_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere
tests_intercept_matrix_plugin_la_LIBADD = src/sim/libcuda.la
check_PROGRAMS += tests/intercept/matrix_paths tests/intercept/exporter
tests_intercept_matrix_paths_SOURCES = tests/intercept/matrix/matrix.c
tests_intercept_matrix_paths_CPPFLAGS = $(matrix_cppflags)
tests_intercept_matrix_paths_LDADD = tests/intercept/librows.la src/sim/libcuda.la -lpthread -ldl
tests_intercept_exporter_SOURCES = tests/intercept/matrix/exporter.c
tests_intercept_exporter_LDADD = src/sim/libcuda.la

check_PROGRAMS += tests/intercept/calls/calls
tests_intercept_calls_calls_SOURCES = tests/intercept/calls/main.c tests/intercept/calls/calls.h \
	tests/intercept/calls/language.c tests/intercept/calls/events.c src/base/loaded.c src/base/kernel.c
tests_intercept_calls_calls_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/include # no use of libcore
tests_intercept_calls_calls_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -lpthread -ldl

# Clients of libibverbs: libfabric, inside another library, a provider plug-in by its symbol and by its name; UCX, also
# inside another library; another client; an object that allocates protection domains for others.
fabric_libraries = tests/intercept/fabric/libfabric.so.1 tests/intercept/fabric/libmpi_fabric.so.1 \
	tests/intercept/fabric/libplugin.so.1 tests/intercept/fabric/libname-fi.so.1 tests/intercept/fabric/libother.so.1 \
	tests/intercept/fabric/libshim.so.1 tests/intercept/fabric/libuct_ib.so.1 tests/intercept/fabric/libmpi_ucx.so.1
EXTRA_DIST += tests/intercept/fabric/fabric.c
tests/intercept/fabric/lib%.so.1: tests/intercept/fabric/fabric.c src/sim/adapter/libibverbs.la
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && case $* in \
		*fabric) defines=fi_getinfo ;; plugin) defines=fi_prov_ini ;; mpi_ucx) defines=uct_ib_md_open_common ;; \
		shim) defines=rdma_create_id ;; *) defines=other ;; esac && \
		$(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -DDEFINES=$$defines -shared -fPIC \
		-Wl,-soname,$(@F) -o $@ $(top_srcdir)/tests/intercept/fabric/fabric.c src/sim/adapter/.libs/libibverbs.so
check_DATA += $(fabric_libraries)
CLEANFILES += $(fabric_libraries)

check_LTLIBRARIES += tests/intercept/verbs/libadapter.la tests/intercept/verbs/known/libibverbs.la \
	tests/intercept/verbs/newest/libibverbs.la tests/intercept/verbs/unknown/libibverbs.la
tests_intercept_verbs_libadapter_la_SOURCES = src/sim/adapter_access.c src/sim/adapter_checks.c src/sim/adapter_domain.c \
	src/sim/adapter_driver.c src/sim/adapter_faults.c src/sim/adapter_kernel.c src/sim/adapter_library.c \
	src/sim/adapter_memory.c src/sim/adapter_alone.c
tests_intercept_verbs_libadapter_la_CFLAGS = $(verbs_cflags)
tests_intercept_verbs_known_libibverbs_la_SOURCES = $(verbs_sources)
tests_intercept_verbs_known_libibverbs_la_CFLAGS = $(verbs_cflags)
tests_intercept_verbs_known_libibverbs_la_LDFLAGS = $(verbs_ldflags)34.map
tests_intercept_verbs_known_libibverbs_la_LIBADD = $(verbs_libadd)
EXTRA_tests_intercept_verbs_known_libibverbs_la_DEPENDENCIES = tests/intercept/verbs/version_34.map
tests_intercept_verbs_newest_libibverbs_la_SOURCES = $(verbs_sources)
tests_intercept_verbs_newest_libibverbs_la_CFLAGS = $(verbs_cflags)
tests_intercept_verbs_newest_libibverbs_la_CPPFLAGS = $(AM_CPPFLAGS) -DKNOWS_ATTRIBUTES -DPROVIDER_FRONT_MORE=48
tests_intercept_verbs_newest_libibverbs_la_LDFLAGS = $(verbs_ldflags)65.map
tests_intercept_verbs_newest_libibverbs_la_LIBADD = $(verbs_libadd)
EXTRA_tests_intercept_verbs_newest_libibverbs_la_DEPENDENCIES = tests/intercept/verbs/version_65.map
tests_intercept_verbs_unknown_libibverbs_la_SOURCES = $(verbs_sources)
tests_intercept_verbs_unknown_libibverbs_la_CFLAGS = $(verbs_cflags)
tests_intercept_verbs_unknown_libibverbs_la_CPPFLAGS = $(AM_CPPFLAGS) -DKNOWS_ATTRIBUTES
tests_intercept_verbs_unknown_libibverbs_la_LDFLAGS = $(verbs_ldflags)99.map
tests_intercept_verbs_unknown_libibverbs_la_LIBADD = $(verbs_libadd)
EXTRA_tests_intercept_verbs_unknown_libibverbs_la_DEPENDENCIES = tests/intercept/verbs/version_99.map

# The example, with declarations of the stand-in's few functions; check_public.sh also compiles it
# with the real ones.
check_PROGRAMS += tests/intercept/cache
tests_intercept_cache_SOURCES = docs/examples/cache.c tests/apps/include/infiniband/verbs.h
tests_intercept_cache_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/apps/include
tests_intercept_cache_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -lpthread -ldl

check_LTLIBRARIES += tests/intercept/verbs/mlx5/libmlx5.la
tests_intercept_verbs_mlx5_libmlx5_la_SOURCES = tests/intercept/verbs/libmlx5.c
tests_intercept_verbs_mlx5_libmlx5_la_LIBADD = -ldl
tests_intercept_verbs_mlx5_libmlx5_la_LDFLAGS = -shared -version-info 1:0:0 -rpath /nowhere \
	-Wl,--version-script=$(top_srcdir)/tests/intercept/verbs/libmlx5.map

# For GPU machines too: libc alone, and the driver by dlopen.
check_PROGRAMS += tests/intercept/check_queries
tests_intercept_check_queries_SOURCES = tests/intercept/queries/queries.c tests/intercept/queries/queries.h \
	tests/intercept/queries/ask.c tests/intercept/queries/population.c src/base/loaded.c src/base/kernel.c
tests_intercept_check_queries_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/intercept/queries
tests_intercept_check_queries_LDADD = -lpthread -ldl

# check_traps.sh: programs on ordinary and on special drivers.
check_PROGRAMS += tests/intercept/ordinary tests/intercept/with_shim tests/intercept/with_loads tests/intercept/with_loads_linked \
	tests/intercept/local tests/intercept/runpath tests/intercept/gpu_only
tests_intercept_ordinary_SOURCES = tests/intercept/traps/ordinary.c tests/intercept/traps/traps.h
tests_intercept_ordinary_CFLAGS = $(AM_CFLAGS) -fno-builtin
tests_intercept_ordinary_LDFLAGS = -rdynamic
tests_intercept_ordinary_LDADD = src/sim/libcuda.la -lpthread -ldl
tests_intercept_with_loads_SOURCES = tests/intercept/traps/with_loads.c
tests_intercept_with_loads_LDADD = src/sim/adapter/libibverbs.la -ldl
tests_intercept_with_loads_linked_SOURCES = tests/intercept/traps/with_loads.c
tests_intercept_with_loads_linked_CPPFLAGS = $(AM_CPPFLAGS) -DLINKED
tests_intercept_with_loads_linked_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -ldl
check_LTLIBRARIES += tests/intercept/auditor.la
tests_intercept_auditor_la_SOURCES = tests/intercept/traps/auditor.c
tests_intercept_auditor_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere
tests_intercept_local_SOURCES = tests/intercept/traps/local.c
tests_intercept_local_CPPFLAGS = $(matrix_cppflags)
tests_intercept_local_LDADD = -ldl
tests_intercept_gpu_only_SOURCES = tests/intercept/traps/gpu_only.c
tests_intercept_gpu_only_LDADD = src/sim/libcuda.la
check_LTLIBRARIES += tests/intercept/deepbind.la tests/intercept/hooks.la
tests_intercept_hooks_la_SOURCES = tests/intercept/calls/hooks.c tests/intercept/calls/calls.h
tests_intercept_hooks_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere
tests_intercept_hooks_la_LIBADD = -ldl
tests_intercept_deepbind_la_SOURCES = tests/intercept/traps/deepbind.c
tests_intercept_deepbind_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere -Wl,-z,lazy
tests_intercept_deepbind_la_LIBADD = src/sim/libcuda.la

# A driver in front of another, which must have another name; and a library on a run path. libtool
# can build neither.
check_DATA += tests/intercept/shim/libcuda.so.1 tests/intercept/inner/libinner.so \
	tests/intercept/folder/libtrap_runpath.so
EXTRA_DIST += tests/intercept/traps/shim.c
tests/intercept/shim/libcuda.so.1: tests/intercept/traps/shim.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) -I$(top_srcdir)/src $(LDFLAGS) -shared -fPIC \
		-Wl,-soname,libcuda.so.1 -o $@ $(top_srcdir)/tests/intercept/traps/shim.c -ldl
tests/intercept/inner/libinner.so: src/sim/libcuda.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cp src/sim/.libs/libcuda.so.1.0.0 $@
tests/intercept/folder/libtrap_runpath.so: tests/intercept/traps/deepbind.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && echo 'int trap_runpath;' | $(CC) $(CFLAGS) -shared -fPIC -x c -o $@ -
tests_intercept_with_shim_SOURCES = tests/intercept/traps/with_shim.c tests/intercept/traps/shim.h
tests_intercept_with_shim_LDADD = tests/intercept/shim/libcuda.so.1 -lpthread -ldl
tests_intercept_runpath_SOURCES = tests/intercept/traps/runpath.c
tests_intercept_runpath_LDADD = -ldl
tests_intercept_runpath_LDFLAGS = -Wl,-rpath,$(abs_top_builddir)/tests/intercept/folder
CLEANFILES += tests/intercept/shim/libcuda.so.1 tests/intercept/inner/libinner.so \
	tests/intercept/folder/libtrap_runpath.so

# Another override of dlsym, in both common forms; and look-ups of every name of a driver.
check_LTLIBRARIES += tests/intercept/chaining.la tests/intercept/reaching.la
other_ldflags = -module -shared -avoid-version -rpath /nowhere
tests_intercept_chaining_la_SOURCES = tests/intercept/other_preload.c tests/intercept/next_dlsym.h
tests_intercept_chaining_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAINING
tests_intercept_chaining_la_LDFLAGS = $(other_ldflags)
tests_intercept_reaching_la_SOURCES = tests/intercept/other_preload.c tests/intercept/next_dlsym.h
tests_intercept_reaching_la_LDFLAGS = $(other_ldflags)
check_LTLIBRARIES += tests/intercept/loading.la
tests_intercept_loading_la_SOURCES = tests/intercept/other_preload.c tests/intercept/next_dlsym.h
tests_intercept_loading_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAINING -DLOADING
tests_intercept_loading_la_LDFLAGS = $(other_ldflags)
check_PROGRAMS += tests/intercept/loader
tests_intercept_loader_SOURCES = tests/intercept/loader.c tests/intercept/next_dlsym.h
tests_intercept_loader_LDADD = src/sim/libcuda.la -ldl
check_LTLIBRARIES += tests/intercept/stacked_chaining.la tests/intercept/stacked_reaching.la tests/intercept/stacked_private.la
tests_intercept_stacked_chaining_la_SOURCES = tests/intercept/stacked/preload.c tests/intercept/next_dlsym.h
tests_intercept_stacked_chaining_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAINING
tests_intercept_stacked_chaining_la_LDFLAGS = $(other_ldflags)
tests_intercept_stacked_reaching_la_SOURCES = tests/intercept/stacked/preload.c tests/intercept/next_dlsym.h
tests_intercept_stacked_reaching_la_LDFLAGS = $(other_ldflags) -Wl,-Bsymbolic
tests_intercept_stacked_private_la_SOURCES = tests/intercept/stacked/preload.c tests/intercept/next_dlsym.h
tests_intercept_stacked_private_la_CPPFLAGS = $(AM_CPPFLAGS) -DCHAINING -DPRIVATE
tests_intercept_stacked_private_la_LDFLAGS = $(other_ldflags)
check_PROGRAMS += tests/intercept/stacked_program
tests_intercept_stacked_program_SOURCES = tests/intercept/stacked/program.c
tests_intercept_stacked_program_LDADD = src/sim/libcuda.la -ldl
check_PROGRAMS += tests/intercept/reload_program
tests_intercept_reload_program_SOURCES = tests/intercept/reload/reload.c tests/intercept/traps/traps.h
tests_intercept_reload_program_LDADD = -ldl
check_LTLIBRARIES += tests/intercept/reload_plugin.la
tests_intercept_reload_plugin_la_SOURCES = tests/intercept/reload/plugin.c
tests_intercept_reload_plugin_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere
tests_intercept_reload_plugin_la_LIBADD = src/sim/libcuda.la
check_PROGRAMS += tests/intercept/replaced_program
tests_intercept_replaced_program_SOURCES = tests/intercept/replaced/program.c
tests_intercept_replaced_program_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -ldl
check_PROGRAMS += tests/intercept/names tests/intercept/lookups_in_allocations
tests_intercept_names_SOURCES = tests/intercept/names.c
tests_intercept_names_LDADD = -ldl
tests_intercept_lookups_in_allocations_SOURCES = tests/intercept/lookups_in_allocations.c
tests_intercept_lookups_in_allocations_LDADD = -ldl

# The first allocation of a process.
check_PROGRAMS += tests/intercept/first
tests_intercept_first_SOURCES = tests/intercept/first.c tests/sleeps.h
tests_intercept_first_LDADD = src/sim/libcuda.la -lpthread -ldl
check_LTLIBRARIES += tests/intercept/first_plugin.la
tests_intercept_first_plugin_la_SOURCES = tests/intercept/first_plugin.c tests/sleeps.h
tests_intercept_first_plugin_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere
tests_intercept_first_plugin_la_LIBADD = src/sim/libcuda.la -lpthread

if HAVE_CHECK
check_LTLIBRARIES += tests/intercept/old/libcuda.la
tests_intercept_old_libcuda_la_SOURCES = tests/intercept/old/driver.c
tests_intercept_old_libcuda_la_LDFLAGS = -shared -version-info 1:0:0 -rpath /nowhere -export-symbols-regex '^cu[A-Z]' \
	-Wl,-Ttext-segment=0x900000000000
check_PROGRAMS += tests/intercept/old_driver
tests_intercept_old_driver_SOURCES = tests/intercept/old_driver.c
tests_intercept_old_driver_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_intercept_old_driver_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_intercept_old_driver_LDADD = $(CHECK_LIBS) -lpthread -ldl
endif
endif
