"""Wiegreffe & Pinter (2019), "Attention is not not Explanation": their four tests on Jain & Wallace's BiLSTM.

python -m examples.papers.wiegreffe_pinter --data sst2 --output runs/
python -m examples.papers.wiegreffe_pinter --data demo --small

Trains the model, and again with uniform attention, with other seeds and as an adversary; imposes its attention on a
classifier of single words; and writes the table and the figure of each test, and a report.
docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

from attnfaith.diagnostics import diagnose
from attnfaith.training import recipe
from examples.papers import shared

DATA = ["sst2", "imdb"]
SIZES = {"imdb": (2000, 400, 400)}
LAMBDAS = (0.0005, 0.001, 0.01)


def main():
    options = shared.options("wiegreffe_pinter", __doc__, DATA)
    study = shared.study(options, "wiegreffe_pinter", SIZES.get(options.data, (10000, 1000, 2000)), 8)
    texts, work = study.texts, study.work

    def diagnosed():
        model = study.train("JW-lstm-additive")
        diagnosis = diagnose(
            str(model),
            texts.train,
            output_dir=work.folder / "diagnosis",
            validation_data=texts.dev,
            test_data=texts.test,
            training=recipe("JW-lstm-additive") | {"epochs": study.epochs, "patience": None},
            vectors=study.vectors,
            seeds=options.seeds,
            lambdas=LAMBDAS,
            small=options.small,
            n_resamples=999,
            quiet=True,
        )
        for test in diagnosis.tests:
            diagnosis.plot(test, path=work.folder / f"{test}.png")
        diagnosis.to_html(work.folder / "diagnosis.html")
        summary = diagnosis.summary()
        summary.to_csv(work.folder / "estimates.csv", index=False)
        print(diagnosis)
        return {"estimates": summary.where(summary.notna(), None).to_dict("records"), "says": str(diagnosis)}

    work.once("diagnosis", diagnosed)


if __name__ == "__main__":
    main()
