# SPDX-License-Identifier: BSD-3-Clause
# Forms in which clients register GPU memory, under the preload: no sanitizer.
forms_checks = tests/forms/check_requests.sh
EXTRA_DIST += $(forms_checks) tests/forms/forms.def tests/forms/table.py
if !SANITIZER
TESTS += $(forms_checks)
check_PROGRAMS += tests/forms/requests
forms_sources = tests/forms/forms.h tests/forms/requests.h tests/forms/client.c tests/forms/memory.c tests/vmm.h
tests_forms_requests_SOURCES = tests/forms/requests.c tests/forms/judge.c $(forms_sources) tests/forms/address.c \
	tests/forms/dma_buf.c tests/forms/mappings.c tests/forms/fresh.c tests/forms/many.c
tests_forms_requests_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -lpthread -ldl
endif
