# SPDX-License-Identifier: BSD-3-Clause
# Packages, into packages/ of the build folder.
EXTRA_DIST += scripts/package packages/control.in packages/peerpin.spec.in packages/rpmlint.toml packages/spack/package.py.in packages/easybuild.eb.in \
	packages/old_glibc.c packages/old_glibc.h tests/packages/check_deb tests/packages/check_packages
.PHONY: deb rpm tarball source
deb rpm tarball source:
	$(srcdir)/scripts/package $(PROJECT_URL:%=--with-url=%) $@
.PHONY: check-packages
check-packages:
	$(srcdir)/tests/packages/check_packages
