# SPDX-License-Identifier: BSD-3-Clause
# Unit tests: one program for each module, linked with the layers below the interception.
UNIT_CHECKS = \
	tests/unit/check_base \
	tests/unit/check_pin_limit \
	tests/unit/check_config \
	tests/unit/check_domain \
	tests/unit/check_region_life \
	tests/unit/check_dma_buf \
	tests/unit/check_errors \
	tests/unit/check_exports \
	tests/unit/check_identity \
	tests/unit/check_hit_races \
	tests/unit/check_hit_steps \
	tests/unit/check_hits \
	tests/unit/check_job \
	tests/unit/check_hidden \
	tests/unit/check_keep \
	tests/unit/check_kept \
	tests/unit/check_keys \
	tests/unit/check_learning \
	tests/unit/check_log \
	tests/unit/check_messages \
	tests/unit/check_methods \
	tests/unit/check_pinning \
	tests/unit/check_statistics \
	tests/unit/check_table \
	tests/unit/check_topology \
	tests/unit/check_trace \
	tests/unit/check_memory \
	tests/unit/check_registration \
	tests/unit/check_verbs_evict \
	tests/unit/check_requests \
	tests/unit/check_worker
if HAVE_CHECK
check_PROGRAMS += $(UNIT_CHECKS)
TESTS += $(UNIT_CHECKS)
endif
unit_ldadd = src/libcore.la $(CHECK_LIBS) -lpthread
unit_cflags = $(AM_CFLAGS) $(CHECK_CFLAGS)

noinst_LTLIBRARIES += tests/unit/libstandin.la
tests_unit_libstandin_la_SOURCES = tests/unit/standin.h tests/unit/standin.c

tests_unit_check_base_SOURCES = tests/unit/check_base.c tests/unit/suite.h
tests_unit_check_base_CFLAGS = $(unit_cflags)
tests_unit_check_base_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_config_SOURCES = tests/unit/check_config.c tests/unit/suite.h
tests_unit_check_config_CFLAGS = $(unit_cflags)
tests_unit_check_config_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_dma_buf_SOURCES = tests/unit/check_dma_buf.c tests/unit/pinning_fixture.h \
	tests/unit/sysfs_fixture.h tests/unit/suite.h
tests_unit_check_dma_buf_CFLAGS = $(unit_cflags)
tests_unit_check_dma_buf_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_errors_SOURCES = tests/unit/check_errors.c tests/unit/suite.h
tests_unit_check_errors_CFLAGS = $(unit_cflags)
tests_unit_check_errors_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_identity_SOURCES = tests/unit/check_identity.c tests/unit/suite.h
tests_unit_check_identity_CFLAGS = $(unit_cflags)
tests_unit_check_identity_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_job_SOURCES = tests/unit/check_job.c tests/unit/suite.h
tests_unit_check_job_CFLAGS = $(unit_cflags)
tests_unit_check_job_LDADD = $(unit_ldadd)
tests_unit_check_exports_SOURCES = tests/unit/check_exports.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_exports_CFLAGS = $(unit_cflags)
tests_unit_check_exports_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_log_SOURCES = tests/unit/check_log.c tests/unit/suite.h
tests_unit_check_log_CFLAGS = $(unit_cflags)
tests_unit_check_log_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_statistics_SOURCES = tests/unit/check_statistics.c tests/unit/suite.h
tests_unit_check_statistics_CFLAGS = $(unit_cflags)
tests_unit_check_statistics_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_keys_SOURCES = tests/unit/check_keys.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_keys_CFLAGS = $(unit_cflags)
tests_unit_check_keys_LDADD = tests/unit/libstandin.la $(unit_ldadd)
# Linked alone: the test defines the functions of the layers below.
tests_unit_check_verbs_evict_SOURCES = tests/unit/check_verbs_evict.c tests/unit/suite.h src/intercept/verbs_evict.c
tests_unit_check_verbs_evict_CFLAGS = $(unit_cflags)
tests_unit_check_verbs_evict_LDADD = $(unit_ldadd)
tests_unit_check_messages_SOURCES = tests/unit/check_messages.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_messages_CFLAGS = $(unit_cflags)
tests_unit_check_messages_LDADD = tests/unit/libstandin.la $(unit_ldadd)
# With a table of registration methods of its own.
tests_unit_check_methods_SOURCES = tests/unit/check_methods.c tests/unit/pinning_fixture.h \
	tests/unit/sysfs_fixture.h tests/unit/suite.h
tests_unit_check_methods_CFLAGS = $(unit_cflags)
tests_unit_check_methods_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_pinning_SOURCES = tests/unit/check_pinning.c tests/unit/pinning_fixture.h \
	tests/unit/sysfs_fixture.h tests/unit/suite.h
tests_unit_check_pinning_CFLAGS = $(unit_cflags)
tests_unit_check_pinning_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_topology_SOURCES = tests/unit/check_topology.c tests/unit/sysfs_fixture.h tests/unit/suite.h
tests_unit_check_topology_CFLAGS = $(unit_cflags)
tests_unit_check_topology_LDADD = tests/unit/libstandin.la $(unit_ldadd)
# Linked alone: see check_trace.c.
tests_unit_check_trace_SOURCES = tests/unit/check_trace.c tests/unit/suite.h
tests_unit_check_trace_CFLAGS = $(unit_cflags)
tests_unit_check_trace_LDADD = $(unit_ldadd)
tests_unit_check_table_SOURCES = tests/unit/check_table.c tests/unit/suite.h
tests_unit_check_table_CFLAGS = $(unit_cflags)
tests_unit_check_table_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_memory_SOURCES = tests/unit/check_memory.c tests/unit/suite.h tests/pointer_attributes.h
tests_unit_check_memory_CFLAGS = $(unit_cflags)
tests_unit_check_memory_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_registration_SOURCES = tests/unit/check_registration.c tests/unit/registration_fixture.h \
	tests/unit/suite.h
tests_unit_check_registration_CFLAGS = $(unit_cflags)
tests_unit_check_registration_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_worker_SOURCES = tests/unit/check_worker.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_worker_CFLAGS = $(unit_cflags)
tests_unit_check_worker_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_worker_LDFLAGS = -rdynamic
tests_unit_check_hits_SOURCES = tests/unit/check_hits.c tests/unit/hits_fixture.h tests/unit/registration_fixture.h \
	tests/unit/suite.h
tests_unit_check_hits_CFLAGS = $(unit_cflags)
tests_unit_check_hits_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_hit_races_SOURCES = tests/unit/check_hit_races.c tests/unit/hits_fixture.h tests/unit/registration_fixture.h \
	tests/unit/suite.h
tests_unit_check_hit_races_CFLAGS = $(unit_cflags)
tests_unit_check_hit_races_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_hit_steps_SOURCES = tests/unit/check_hit_steps.c tests/unit/hits_fixture.h tests/unit/registration_fixture.h \
	tests/unit/suite.h
tests_unit_check_hit_steps_CFLAGS = $(unit_cflags)
tests_unit_check_hit_steps_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_pin_limit_SOURCES = tests/unit/check_pin_limit.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_pin_limit_CFLAGS = $(unit_cflags)
tests_unit_check_pin_limit_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_learning_SOURCES = tests/unit/check_learning.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_learning_CFLAGS = $(unit_cflags)
tests_unit_check_learning_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_requests_SOURCES = tests/unit/check_requests.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_requests_CFLAGS = $(unit_cflags)
tests_unit_check_requests_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_region_life_SOURCES = tests/unit/check_region_life.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_region_life_CFLAGS = $(unit_cflags)
tests_unit_check_region_life_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_domain_SOURCES = tests/unit/check_domain.c tests/unit/registration_fixture.h tests/unit/suite.h
tests_unit_check_domain_CFLAGS = $(unit_cflags)
tests_unit_check_domain_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_hidden_SOURCES = tests/unit/check_hidden.c tests/unit/keep_fixture.h tests/unit/suite.h
tests_unit_check_hidden_CFLAGS = $(unit_cflags)
tests_unit_check_hidden_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_keep_SOURCES = tests/unit/check_keep.c tests/unit/keep_fixture.h tests/unit/suite.h
tests_unit_check_keep_CFLAGS = $(unit_cflags)
tests_unit_check_keep_LDADD = tests/unit/libstandin.la $(unit_ldadd)
tests_unit_check_kept_SOURCES = tests/unit/check_kept.c tests/unit/keep_fixture.h tests/unit/suite.h
tests_unit_check_kept_CFLAGS = $(unit_cflags)
tests_unit_check_kept_LDADD = tests/unit/libstandin.la $(unit_ldadd)
