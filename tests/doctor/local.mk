# SPDX-License-Identifier: BSD-3-Clause
# peerpin doctor over recorded and generated hosts.
doctor_checks = tests/doctor/check_doctor.sh tests/doctor/check_states.sh
if HAVE_JANSSON
check_SCRIPTS += $(doctor_checks)
TESTS += $(doctor_checks)
endif
EXTRA_DIST += $(doctor_checks) tests/doctor/check_results.py tests/doctor/check_rules.py tests/doctor/check_unreadable.py tests/doctor/make_hosts.py tests/doctor/hosts
# check_doctor.sh generates these.
CLEANFILES += tests/doctor/generated/*.dump
