"""training with two threads, an objective of Python, values of trees, errors"""

import lightgbm
import numpy as np


def work(tell):
    random = np.random.default_rng(8)
    x = random.standard_normal((600, 6))
    y = x[:, 0] * 2 + np.sin(x[:, 1]) * 3
    options = {"objective": "l2", "num_threads": 2, "deterministic": True, "force_row_wise": True, "verbosity": -1, "seed": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(x, y), 30)
    tell("predicted", booster.predict(x[:60]))
    tell("contributions", booster.predict(x[:20], pred_contrib=True))
    tell("model", booster.model_to_string().split("tree_sizes")[0])
    own = dict(options, objective=lambda predicted, data: (predicted - data.get_label(), np.ones_like(predicted)))
    tell("objective", lightgbm.train(own, lightgbm.Dataset(x, y), 10).predict(x[:40]))
    classifier = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=2, deterministic=True, force_row_wise=True, verbose=-1)
    tell("classes", classifier.fit(x, (y > 0).astype(int)).predict(x[:50]))
    try:
        lightgbm.train(dict(options, objective="none such"), lightgbm.Dataset(x, y), 1)
    except lightgbm.basic.LightGBMError as error:
        tell("error", str(error))
