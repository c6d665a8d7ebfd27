# SPDX-License-Identifier: BSD-3-Clause
# Other people's programs on a real GPU; where there is none only the comparison is tested.
TESTS += tests/gpu/check_compare.sh
EXTRA_DIST += tests/gpu/run tests/gpu/oracle.c tests/gpu/compare tests/gpu/check_compare.sh \
	tests/gpu/programs/training.py tests/gpu/programs/graphs.py tests/gpu/programs/cupy_program.py \
	tests/gpu/programs/jax_program.py tests/gpu/programs/numba_program.py tests/gpu/programs/runtime.c
