# SPDX-License-Identifier: BSD-3-Clause
"""expandable.py -- training.py, and tensors over several mappings, registered with the adapter GPU_ADAPTER

GPU_ADAPTER is the simulated adapter's library; without it no tensor is registered.
"""
import ctypes
import os

import torch
import training  # noqa: F401

MIB = 1 << 20
ACCESS = 7  # local write, remote write, remote read
POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


class Client:
    def __init__(self, library):
        self.verbs = ctypes.CDLL(library)
        for name, result, *arguments in (
            ("ibv_get_device_list", ctypes.POINTER(POINTER), POINTER),
            ("ibv_open_device", POINTER, POINTER),
            ("ibv_alloc_pd", POINTER, POINTER),
            ("ibv_reg_mr", POINTER, POINTER, POINTER, SIZE, INT),
            ("ibv_dereg_mr", INT, POINTER),
            ("ibv_dealloc_pd", INT, POINTER),
        ):
            function = getattr(self.verbs, name)
            function.restype, function.argtypes = result, arguments
        self.pd = self.verbs.ibv_alloc_pd(self.verbs.ibv_open_device(self.verbs.ibv_get_device_list(None)[0]))
        assert self.pd, "no protection domain"

    def use(self, tensor):
        # Without peerpin the simulated adapter has no peer memory for a real GPU.
        mr = self.verbs.ibv_reg_mr(self.pd, tensor.data_ptr(), tensor.numel(), ACCESS)
        assert not mr or not self.verbs.ibv_dereg_mr(mr), "no deregistration"

    def close(self):
        live = ctypes.c_uint64()
        assert not self.verbs.ibv_dealloc_pd(self.pd), "registrations are left in the protection domain"
        assert not self.verbs.sim_adapter_statistic(b"live", ctypes.byref(live))
        print(f"{live.value} registrations left")


def tensor(number, mib):
    return torch.full((mib * MIB,), number, dtype=torch.uint8, device="cuda")


client = Client(os.environ["GPU_ADAPTER"]) if os.environ.get("GPU_ADAPTER") else None
for step in range(3):
    tensors = [tensor(step, mib) for mib in (30, 50)]
    for mib in (70, 90):  # the segment grows
        tensors.append(tensor(step + 1, mib))
        for _ in range(4):
            for one in tensors if client else ():
                client.use(one)
    print(f"step {step}: {[int(one.sum(dtype=torch.int64)) for one in tensors]}")
    tensors = one = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
if client:
    client.close()
