# SPDX-License-Identifier: BSD-3-Clause
# The files of a site. "make check-site" also starts Slurm, podman and Lmod of this host.
EXTRA_DIST += tests/site/run
if !SANITIZER
check_SCRIPTS += tests/site/run
TESTS += tests/site/run
endif
.PHONY: check-site
check-site: all tests/launcher/empty.so tests/tools/client tests/intercept/calls/calls
	srcdir=$(srcdir) $(srcdir)/tests/site/run --services
