# SPDX-License-Identifier: BSD-3-Clause
# The simulated driver has the real one's name, and a folder of its own to prevent accidental use.
simdir = $(pkglibdir)/sim
sim_LTLIBRARIES = src/sim/libcuda.la
noinst_LTLIBRARIES += src/sim/libsim.la
src_sim_libcuda_la_SOURCES = src/sim/entries_x86_64.S
src_sim_libsim_la_SOURCES = \
	src/sim/sim.h src/sim/allocator.c src/sim/attached.c src/sim/callbacks.c src/sim/capture.c \
	src/sim/context.c src/sim/device.c src/sim/freed.h src/sim/freed.c src/sim/graph.c \
	src/sim/host.c src/sim/mapping.c src/sim/memory.c src/sim/module.c src/sim/old.c src/sim/physical.c \
	src/sim/pointer.c src/sim/pool.c src/sim/proc_address.c src/sim/shared.c \
	src/sim/stream.c
EXTRA_DIST += src/memory/cuda_abi.def
sim_ldflags = -version-info 1:0:0 -shared -export-symbols-regex '^(cu[A-Z]|sim_driver_)'
if !SANITIZER
sim_ldflags += -Wl,-z,defs -Wl,-Bsymbolic
endif
sim_libadd = src/sim/libsim.la -lpthread
src_sim_libcuda_la_LDFLAGS = $(sim_ldflags)
src_sim_libcuda_la_LIBADD = $(sim_libadd)

# The simulated adapter, in another folder: the simulated driver is also used without it. Its parts
# call each other by way of the dynamic linker, as in rdma-core, so that a preload is in between.
simadapterdir = $(pkglibdir)/sim/adapter
simadapter_LTLIBRARIES = src/sim/adapter/libibverbs.la
src_sim_adapter_libibverbs_la_SOURCES = \
	src/sim/adapter.h src/sim/adapter_access.h src/sim/adapter_verbs.h src/sim/sim_adapter.h \
	src/sim/adapter_access.c src/sim/adapter_checks.c src/sim/adapter_commands.c src/sim/adapter_domain.c \
	src/sim/adapter_driver.c src/sim/adapter_faults.c src/sim/adapter_kernel.c src/sim/adapter_library.c \
	src/sim/adapter_memory.c src/sim/adapter_provider.c src/sim/stubs/newer.c \
	src/sim/stubs/stub.h
if HAVE_VERBS
src_sim_adapter_libibverbs_la_SOURCES += \
	src/sim/plane/context.h src/sim/plane/link.h src/sim/plane/pair.h src/sim/plane/plane.h \
	src/sim/plane/ring.h src/sim/plane/segment.h src/sim/plane/address.c src/sim/plane/attributes.c \
	src/sim/plane/channel.c src/sim/plane/context.c src/sim/plane/datagram.c src/sim/plane/events.c \
	src/sim/plane/link.c src/sim/plane/missing.c src/sim/plane/names.c src/sim/plane/pair.c \
	src/sim/plane/post.c src/sim/plane/progress.c src/sim/plane/queue.c src/sim/plane/receive.c \
	src/sim/plane/request.c src/sim/plane/respond.c src/sim/plane/response.c src/sim/plane/ring.c \
	src/sim/plane/segment.c src/sim/plane/transfer.c src/sim/plane/waiter.c
else
src_sim_adapter_libibverbs_la_SOURCES += src/sim/adapter_alone.c
endif
EXTRA_DIST += src/sim/adapter.map
src_sim_adapter_libibverbs_la_CFLAGS = $(AM_CFLAGS) -fsemantic-interposition
src_sim_adapter_libibverbs_la_LDFLAGS = -version-info 1:0:0 -shared \
	-Wl,--version-script=$(top_srcdir)/src/sim/adapter.map
src_sim_adapter_libibverbs_la_LIBADD = -lpthread -ldl
EXTRA_src_sim_adapter_libibverbs_la_DEPENDENCIES = $(top_srcdir)/src/sim/adapter.map

# Libraries of providers that clients link, and a preload that shows them the adapters' files.
simadapter_LTLIBRARIES += src/sim/adapter/libefa.la src/sim/adapter/libhns.la src/sim/adapter/libmlx5.la \
	src/sim/adapter/libsim_files.la
stub_ldflags = -version-info 1:0:0 -shared -Wl,--version-script=$(top_srcdir)/src/sim/stubs
src_sim_adapter_libefa_la_SOURCES = src/sim/stubs/stub.h src/sim/stubs/efa.c
src_sim_adapter_libefa_la_LDFLAGS = $(stub_ldflags)/efa.map
src_sim_adapter_libhns_la_SOURCES = src/sim/stubs/stub.h src/sim/stubs/hns.c
src_sim_adapter_libhns_la_LDFLAGS = $(stub_ldflags)/hns.map
src_sim_adapter_libmlx5_la_SOURCES = src/sim/stubs/stub.h src/sim/stubs/mlx5.c
src_sim_adapter_libmlx5_la_LDFLAGS = $(stub_ldflags)/mlx5.map
EXTRA_DIST += src/sim/stubs/efa.map src/sim/stubs/hns.map src/sim/stubs/mlx5.map
src_sim_adapter_libsim_files_la_SOURCES = src/sim/adapter_files.c
src_sim_adapter_libsim_files_la_LDFLAGS = -module -avoid-version -shared
src_sim_adapter_libsim_files_la_LIBADD = -ldl

pkglibexec_PROGRAMS += src/sim/peerpin-demo
src_sim_peerpin_demo_SOURCES = src/sim/demo.c
src_sim_peerpin_demo_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -ldl
