# SPDX-License-Identifier: BSD-3-Clause
# Packages, into packages/ of the build folder.
EXTRA_DIST += scripts/package packages/control.in packages/peerpin.spec packages/spack/package.py packages/easybuild.eb \
	packages/old_glibc.c packages/old_glibc.h tests/packages/check_deb tests/packages/check_packages
.PHONY: deb rpm tarball
deb rpm tarball:
	$(srcdir)/scripts/package $@
.PHONY: check-packages
check-packages:
	$(srcdir)/tests/packages/check_packages
