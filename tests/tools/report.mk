# SPDX-License-Identifier: BSD-3-Clause
# peerpin report and peerpin top, over generated statistics and over running processes.
if HAVE_JANSSON
report_checks = tests/tools/check_report.sh tests/tools/check_page.sh
check_SCRIPTS += $(report_checks)
TESTS += $(report_checks)
if !SANITIZER
# This test preloads the library: no sanitizer.
top_checks = tests/tools/check_top.sh
check_SCRIPTS += $(top_checks)
TESTS += $(top_checks)
endif
endif
EXTRA_DIST += tests/tools/check_report.sh tests/tools/check_page.sh tests/tools/check_top.sh \
	tests/tools/records.py tests/tools/page.js tests/tools/report docs/report.schema.json
