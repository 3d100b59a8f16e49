"""Prints one model's table of memory.sh: memory_table.py WORK_FOLDER NAME."""
import json
import re
import sys
from pathlib import Path

MIB = 1 << 20
OURS = {"Lockstep ddp": "ours-ddp", "Lockstep zero3": "ours-zero3", "same, everySteps: 2": "ours-saving"}
PEERS = {"PyTorch DDP": "ddp", "PyTorch FSDP2": "fsdp2", "Accelerate": "accelerate", "DeepSpeed ZeRO-1": "zero1",
         "DeepSpeed ZeRO-2": "zero2", "DeepSpeed ZeRO-3": "zero3"}
work = Path(sys.argv[1])


def ours(name):
    lines = (work / name / "metrics.jsonl").read_text().splitlines()
    peaks = []
    for log in sorted((work / name / "logs/attempt-0").glob("rank-*.log")):
        peaks.append(int(re.search(r"when=end .*?resident_peak_bytes=(\d+)", log.read_text()).group(1)))
    return [json.loads(line)["loss"] for line in lines], max(peaks)


def peer(name):
    ranks = [json.loads((work / f"{name}-{rank}").read_text().splitlines()[-1]) for rank in (0, 1)]
    return ranks[0]["losses"], max(rank["peak"] for rank in ranks)


peers = {title: peer(name) for title, name in PEERS.items()}
runs = {title: ours(name) for title, name in OURS.items()} | peers
bare = json.loads((work / "import").read_text())["peak"]
leanest = min(peak for _, peak in peers.values())
reference = runs["PyTorch DDP"][0]
worst = max(abs(loss / other - 1) for losses, _ in runs.values() for loss, other in zip(losses, reference, strict=True))
manifest = json.loads(next(work.glob("ours-ddp/checkpoints/step-*/manifest.json")).read_text())["manifest"]
count = sum(unit["numElems"] for unit in manifest["units"])
print(f"{sys.argv[2]} ({count:,} parameters), losses {reference[0]:.4f} -> {reference[-1]:.4f}, agreeing to {worst:.1e}")
for title, (_, peak) in runs.items():
    print(f"  {title:20} peak of a rank {peak / MIB:7.1f} MiB   {peak / leanest:5.2f} of the leanest peer")
print(f"  {'bare `import torch`':20} peak           {bare / MIB:7.1f} MiB   {bare / leanest:5.2f}")
if not worst < 1e-4:
    sys.exit("the losses do not agree: the runs are not the same training")
