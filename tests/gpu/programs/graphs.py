# SPDX-License-Identifier: BSD-3-Clause
"""graphs.py -- a CUDA graph is captured, with allocations in it, and played again"""
import torch

torch.manual_seed(2)
weight = torch.randn(256, 256).cuda()
value = torch.randn(64, 256).cuda()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        (value @ weight).relu().sum()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = torch.zeros(64, 256, device="cuda") + (value @ weight).relu()
    total = result.sum()
for step in range(5):
    value.copy_(torch.full((64, 256), 0.01 * (step + 1)))
    spare = torch.empty(1 << 20, device="cuda")
    graph.replay()
    torch.cuda.synchronize()
    print(f"captured and played {step}: {total.item():.4f}")
    del spare
    torch.cuda.empty_cache()
