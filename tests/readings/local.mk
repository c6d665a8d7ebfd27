# SPDX-License-Identifier: BSD-3-Clause
# doctor's live readers, on the simulated driver and adapter.
if HAVE_JANSSON
if !SANITIZER
TESTS += tests/readings/check_readings.sh
check_PROGRAMS += tests/readings/readings tests/readings/hostile tests/readings/rc_abi
tests_readings_readings_SOURCES = tests/readings/readings.c $(doctor_readers) $(doctor_host) src/tools/units.h src/tools/units.c
tests_readings_readings_CPPFLAGS = $(doctor_cppflags)
tests_readings_readings_LDADD = $(doctor_libraries)
tests_readings_rc_abi_SOURCES = tests/readings/rc_abi.c
tests_readings_hostile_SOURCES = tests/readings/hostile.c src/tools/elf_file.c src/tools/doctor/libraries.c
endif
endif
EXTRA_DIST += tests/readings/check_readings.sh tests/readings/standin.c tests/readings/nvml.c
