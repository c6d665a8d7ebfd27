# SPDX-License-Identifier: BSD-3-Clause
"""training.py -- a small training loop in PyTorch, the same each time"""
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    # Batches of other sizes, so that the allocator has something to do.
    batch = torch.randn(64 + 32 * (step % 5), 512).cuda()
    loss = model(batch).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print(f"step {step}: {loss.item():.5f}")
