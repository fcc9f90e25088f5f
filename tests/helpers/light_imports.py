"""Which packages a program imports, apart from those that Transformers imports by itself."""

import functools
import subprocess
import sys


def modules_after(program, names):
    """Those of the modules that a program has imported at its end, in an interpreter of its own."""
    program = f"{program}\nimport sys; print(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@functools.cache
def of_transformers(names):
    """Those of the modules that Transformers imports for its Auto classes: scikit-learn, in some versions."""
    return modules_after(
        "from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer", names
    )


def of_attnfaith(program, names):
    """Those of the modules that a program imports, and Transformers alone does not."""
    names = tuple(names)
    return (imported := modules_after(program, names)) and imported - of_transformers(names)
