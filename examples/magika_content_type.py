"""The main job, end to end: magika's content-type model from ONNX to this machine's CPU, against onnxruntime.

The model (trained by others, Apache-2.0) comes with the PyPI package ``magika``. The steps are the command lines
that a user would type; they are printed as they run. Exits 1 when the outputs differ by more than 1e-5.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
SAMPLES = ["examples/magika_content_type.py", "pyproject.toml", "LICENSE", "README.md", "tools/setup"]
TOLERANCE = 1e-5


def model_folder() -> Path:
    """Where the installed package keeps its newest standard model."""
    spec = find_spec("magika")
    if spec is None or spec.origin is None:
        sys.exit("magika is not installed: pip install 'rlx-dialect[examples]'")
    return max((Path(spec.origin).parent / "models").glob("standard_*"))


def features(content: bytes, config: dict[str, int]) -> list[int]:
    """The first and last bytes without surrounding white space, padded, as the model was trained on."""
    begin = content[: config["block_size"]].lstrip()[: config["beg_size"]]
    end = content[-config["block_size"] :].rstrip()[-config["end_size"] :]
    pad = config["padding_token"]
    return [*begin, *[pad] * (config["beg_size"] - len(begin)), *[pad] * (config["end_size"] - len(end)), *end]


def run(tool: str, *arguments: str | Path) -> None:
    """One command line of the installed tools, shown before it runs."""
    words = [tool, *map(str, arguments)]
    print(f"$ {shlex.join(words)}", flush=True)
    subprocess.run([str(Path(sys.executable).parent / tool), *words[1:]], check=True, cwd=ROOT)


def expected(model: Path, inputs: NDArray[np.int32]) -> NDArray[np.float32]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(["target_label"], {"bytes": inputs})[0]  # pyright: ignore[reportReturnType]


def main() -> None:
    folder = model_folder()
    config = json.loads((folder / "config.min.json").read_text())
    out = Path("out")
    (ROOT / out).mkdir(exist_ok=True)
    inputs = np.array([features((ROOT / s).read_bytes(), config) for s in SAMPLES], np.int32)
    np.savez(ROOT / out / "inputs.npz", bytes=inputs)

    run("rlx-import", folder / "model.onnx", "-o", out / "magika.mlir")
    run("rlx-opt", "--pipeline=cpu-fuse", out / "magika.mlir", "-o", out / "magika.fused.mlir")
    run("rlx-opt", "--pipeline=cpu", out / "magika.mlir", "-o", out / "magika.linalg.mlir")
    results = out / "outputs.npz"
    run("rlx-run", out / "magika.mlir", "--target=cpu", "--inputs", out / "inputs.npz", "--outputs", results, "--check")

    found = np.load(ROOT / results)["target_label"]
    error = np.abs(found - expected(folder / "model.onnx", inputs)).max()
    for sample, scores in zip(SAMPLES, found, strict=True):
        best = int(scores.argmax())
        print(f"{sample}: {config['target_labels_space'][best]} ({scores[best]:.4f})")
    print(f"largest difference from onnxruntime: {error:.3g} (allowed: {TOLERANCE:g})")
    sys.exit(0 if error <= TOLERANCE else 1)


if __name__ == "__main__":
    main()
