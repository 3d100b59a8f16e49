"""Prints one model's table of memory.sh: memory_table.py WORK_FOLDER NAME."""
import json
import re
import sys
from pathlib import Path

MIB = 1 << 20
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


runs = {"Lockstep ddp": ours("ours-ddp"), "Lockstep zero3": ours("ours-zero3"),
        "same, everySteps: 2": ours("ours-saving"), "PyTorch DDP": peer("ddp"), "PyTorch FSDP2": peer("fsdp2")}
bare = json.loads((work / "import").read_text())["peak"]
leanest = min(peak for name, (_, peak) in runs.items() if name.startswith("PyTorch"))
reference = runs["PyTorch DDP"][0]
worst = max(abs(loss / other - 1) for losses, _ in runs.values() for loss, other in zip(losses, reference, strict=True))
manifest = json.loads(next(work.glob("ours-ddp/checkpoints/step-*/manifest.json")).read_text())["manifest"]
count = sum(unit["numElems"] for unit in manifest["units"])
print(f"{sys.argv[2]} ({count:,} parameters), losses {reference[0]:.4f} -> {reference[-1]:.4f}, "
      f"agreeing to {worst:.1e}; bare `import torch` {bare / MIB:.0f} MiB")
for name, (_, peak) in runs.items():
    print(f"  {name:20} peak of a rank {peak / MIB:7.1f} MiB   {peak / leanest:5.2f} of the leanest peer")
if not worst < 1e-4:
    sys.exit("the losses do not agree: the runs are not the same training")
