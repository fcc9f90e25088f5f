"""`FaithfulnessCallback` under torchrun: two processes train one model and evaluate it together."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.examples
ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, os, sys
from pathlib import Path
from tests.training.test_faithfulness_callback import NAMES, trained
from tests.helpers import training_data

folder = Path(sys.argv[1])
options = {"max_steps": 4, "eval_steps": 2, "save_strategy": "steps", "save_steps": 2, "load_best_model_at_end": True}
options |= {"metric_for_best_model": "attention_agreement", "greater_is_better": True}
trainer, _ = trained("flan", folder / "with", callback=True, **options)
plain, _ = trained("flan", folder / "without", callback=False, max_steps=4, eval_steps=2)
log = [entry for entry in trainer.state.log_history if NAMES & set(entry)]
told = {
    "processes": trainer.args.world_size,
    "figures": [[entry[name] for name in sorted(NAMES)] for entry in log],
    "same weights": training_data.same(*(training_data.weights(one.model) for one in (trainer, plain))),
}
(folder / f"{os.environ['RANK']}.json").write_text(json.dumps(told))
"""


def test_all_processes_have_the_same_figures_and_the_first_prints_them(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert told[0]["processes"] == 2
    assert len(told[0]["figures"]) == 2
    assert str(told[0]) == str(told[1])  # NaN equals NaN here
    assert told[0]["same weights"], "the last checkpoint is the best by its figures, and as without the callback"
    assert done.stdout.count("'eval_attention_agreement'") == 2
