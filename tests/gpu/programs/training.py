# SPDX-License-Identifier: BSD-3-Clause
"""training.py -- training in PyTorch, deterministic: a checksum of the parameters; seconds as an error line

With PYTORCH_NO_CUDA_MEMORY_CACHING=1 every tensor is an allocation of the driver's; without, memory goes back to the
driver every 10 steps.
"""
import hashlib
import sys
import time

import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False
model = torch.nn.Sequential(
    torch.nn.Linear(1024, 4096),
    torch.nn.GELU(),
    torch.nn.LayerNorm(4096),
    torch.nn.Linear(4096, 4096),
    torch.nn.ReLU(),
    torch.nn.Linear(4096, 16),
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
begun = time.monotonic()
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
    if step == 10:
        torch.cuda.synchronize()
        begun = time.monotonic()
    batch = torch.randn(256 + 128 * (step % 3), 1024).cuda()
    loss = model(batch).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        torch.cuda.empty_cache()
        print(f"step {step}: {loss.item().hex()}")
torch.cuda.synchronize()
print(f"seconds {time.monotonic() - begun:.3f}", file=sys.stderr)
digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().cpu().numpy().tobytes())
print(f"parameters {digest.hexdigest()}")
