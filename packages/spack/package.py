# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *


class Peerpin(AutotoolsPackage):
    """Preload library that registers the GPU memory of unmodified CUDA programs for RDMA in the background."""

    homepage = "https://example.invalid/peerpin"
    # No public address yet: spack develop peerpin, or a mirror with the file of "make dist".
    url = "https://example.invalid/peerpin-0.3.0.tar.xz"

    license("BSD-3-Clause")

    version("0.3.0")

    variant("tools", default=True, description="doctor, report and top")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson@2.13: ~shared", type="build", when="+tools")

    conflicts("platform=darwin")
    conflicts("platform=windows")
    requires("target=x86_64:", "target=aarch64:", policy="one_of")

    def configure_args(self):
        return self.enable_or_disable("tools") + ["--libdir=" + self.prefix.lib]

    def setup_run_environment(self, env):
        # As in the modulefile of "peerpin site lmod", but not preloaded: peerpin COMMAND is.
        env.prepend_path("PATH", self.prefix.bin)
